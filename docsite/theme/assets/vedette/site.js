"use strict";
// Links of earlier versions led to an operation at /docs#/tag/operation; those pages are at /docs/api now.
if (location.hash.startsWith("#/")) location.replace(new URL(`api${location.hash}`, location.href));
