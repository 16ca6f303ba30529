"""The site of the documentation: `make docs` builds it of docs/ with Material for MkDocs, into dist/docs."""
