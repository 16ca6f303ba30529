"""Advice for functions that do not exist.

Only what is near by meaning, or by spelling beyond doubt, is named: a wrong hint costs more than none.
"""

from __future__ import annotations

from language.expressions.library import FUNCTIONS
from language.findings import near

_NO_CLOCK = (
    "No function reads a clock; run.started_at is when the run began, run.queued_at when it was accepted."
)
_NO_CHANCE = "No function gives chance; run.id is another for each run."
_NO_PATTERNS = "There are no patterns; contains(), starts_with(), ends_with() and split() go a long way."
_NO_ARITHMETIC = "There is no arithmetic; sum([a, b]) adds."
_PART = "Write join('', split(x, '')[0:3]) for the first three characters."

# What to write → the names that others have for it: JavaScript, Python, SQL, Jinja, Liquid, JSONata, jq.
_NAMES = {
    "Write lower(x).": "lowercase tolower tolowercase lcase downcase asciidowncase casefold",
    "Write upper(x).": "uppercase toupper touppercase ucase upcase asciiupcase",
    "Write length(x).": "len size count strlen charlength",
    "Write contains(x, y).": "includes include in has inarray some any",
    "Write join('', [a, b]); for arrays [a, b][].": "concat concatenate strcat append push plus format "
    "sprintf",
    "Write to_number(x).": "int integer float number num parseint parsefloat parsenumber cast",
    "Write to_string(x).": "str string json tojson jsonencode jsonstringify stringify dumps jsondumps",
    "Write parse_json(x).": "fromjson jsonparse jsondecode loads jsonloads parse",
    "Write not_null(a, b), or a || b.": "default coalesce ifnull nvl ifempty dflt",
    "Write x == null, or !x where what is empty counts too.": (
        "isnull isnone isempty empty isblank blank isset exists isdefined defined isnan"
    ),
    "Write condition && a || b.": "if iif ifelse ternary cond when case switch choose",
    "Write !x.": "not",
    "Write a && b.": "and all every",
    "Write a || b.": "or",
    "Write floor(x) or ceil(x): nothing rounds to the nearest.": "round trunc truncate ceiling tofixed",
    "Write items[?x == 'a'].": "filter where selectattr reject find",
    "Write items[*].x, or map(&x, items).": "each foreach pluck collect apply mapvalues",
    "Write x[0].": "first head",
    "Write x[-1].": "last tail",
    "Write x[1:3].": "subarray take drop limit skip",
    "Write keys(from_items(x[*].[@, @])), which has each string once.": (
        "unique uniq distinct dedupe toset set"
    ),
    "Write x[].": "flatten flat",
    "Write avg(x).": "average mean",
    "Write max(x).": "maximum greatest",
    "Write min(x).": "minimum least",
    "Write sort(x), or sort_by(x, &e).": "sorted order orderby",
    "Write group_by(x, &e).": "partition",
    "Write trim(x).": "strip",
    "Write trim_left(x).": "ltrim lstrip trimstart",
    "Write trim_right(x).": "rtrim rstrip trimend chomp",
    "Write pad_left(x, width).": "lpad padstart rjust zfill",
    "Write pad_right(x, width).": "rpad padend ljust",
    "Write find_first(x, y).": "indexof index position strpos charindex instr locate",
    "Write find_last(x, y).": "lastindexof rindex rfind",
    "Write split(x, separator).": "explode",
    "Write join(glue, array).": "implode",
    "Write replace(x, old, new).": "replaceall gsub sub",
    "Write items(x).": "entries toentries objectentries",
    "Write from_items(x).": "fromentries objectfromentries dict",
    "Write keys(x).": "objectkeys",
    "Write values(x).": "objectvalues",
    "Write merge(a, b).": "assign extend update spread objectassign",
    "Write type(x).": "typeof isstring isnumber isarray isobject isboolean",
    "Write to_array(x).": "list array",
    "Write hash_sha256(x).": "sha256 sha hash digest sha256hex",
    "Write hash_sha256(x), the only digest.": "md5 sha1 sha512 hmac crc32",
    "Write url_encode(x).": "encodeuri encodeuricomponent urlquote quote uriescape escape",
    "Write date_add(time, 1, 'days').": "adddays addhours addtime timedelta interval datesub dateminus",
    "Write date_diff(a, b, 'days').": "daysbetween diff timediff",
    "Write format_date(time, '%Y-%m-%d').": "dateformat formatdatetime strftime formattime todatestring date",
    "A time is a string, 2026-12-24T18:00:00Z, as it is.": (
        "strptime parsedate dateparse todate todatetime datetime"
    ),
    _NO_CLOCK: "now today utcnow currentdate currenttime currenttimestamp timestamp millis getdate "
    "sysdate time",
    _NO_CHANCE: "uuid uuid4 uuidv4 guid random rand randint shuffle",
    _NO_PATTERNS: "match matches regex regexp regexmatch regextest like ilike regexreplace",
    _NO_ARITHMETIC: "add subtract minus multiply times divide div mod modulo pow power sqrt",
    _PART: "substr substring slice left right mid truncatechars",
    "Nothing here reads or writes base64.": "base64 btoa atob base64encode base64decode b64encode b64decode",
    "Nothing here makes capitals of first letters.": "capitalize title titlecase ucfirst propercase",
}  # fmt: skip
_INSTEAD = {name: what for what, names in _NAMES.items() for name in names.split()}
_SPELT = {name.replace("_", ""): name for name in FUNCTIONS}


def instead_of(name: str) -> str:
    """Return the advice for an unknown function, after a space; empty if no name is close enough."""
    plain = name.lower().replace("_", "")
    if plain in _SPELT:
        return f" Write {_SPELT[plain]}()."
    if plain in _INSTEAD:
        return f" {_INSTEAD[plain]}"
    meant = " or ".join(f"{known}()" for known in near(name, FUNCTIONS))
    return f" Did you mean {meant}?" if meant else ""
