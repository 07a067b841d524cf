"""Where things are on this installation, and the two files that `dp-spark init` writes."""

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import sqlalchemy as sa

from dp_spark.errors import SetupRefused
from dp_spark.release.problems import Problem, Wrong, shown, summary, unknown_key, wrong
from dp_spark.release.reading import MAX_BYTES, read_each, read_text, whole_number
from dp_spark.release.secret import FORMS, Source, parse_reference

PROFILE_VARIABLE = "DP_SPARK_PROFILE"
PROFILE_FILE = "dp_spark.toml"
# Where everything is without a profile, relative to the working directory.
_EMBEDDED = {
    "ledger_url": "sqlite:///.dp_spark/ledger.db",
    "master_key": "file:.dp_spark/master.key",
    "staging": ".dp_spark/restricted",
    "statements": ".dp_spark/statements",
}
_LEDGERS = "sqlite:///PATH or postgresql+psycopg://ROLE@HOST/DATABASE"
# What a PostgreSQL URL may say of the way to its server; nothing of it is a secret.
_POSTGRES_OPTIONS = frozenset({"host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey"})
_KEYS = (*_EMBEDDED, "ledger_password", "connections", "retention_days", "metrics", "lineage", "spark")
_CONNECTION_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_LONGEST_RETENTION = 36_600  # days
# Answers depend on these: dp_spark sets some itself, and knows no engine but Spark's own.
_PINNED = (
    "spark.sql.ansi.enabled",
    "spark.sql.session.timezone",
    "spark.sql.execution.arrow.pyspark.enabled",
    "spark.sql.files.ignoremissingfiles",
    "spark.sql.files.ignorecorruptfiles",
)
_ENGINES = ("spark.plugins", "spark.sql.extensions")
_SECRET = re.compile(
    r"secret|passw(or)?d|pwd|passphrase|passcode|token|credential|authorization|connection[._-]?string"
    r"|odbc[._-]?connect|(access|account|private|api)[._-]?key|(?<![a-z])(sas|sig)(?![a-z])",
    re.IGNORECASE,
)
# What a value assigns to a name, as in queries, connection strings and Java's -D.
_ASSIGNED = re.compile(r"(?:^|[?&;,\s])([^=?&;,\s]+)\s*=")
# Azure's containers stand where other URLs have a role, or a key.
_USERINFO = re.compile(r"://[^?#\s]*:[^?#\s]*@|(?<!abfs)(?<!abfss)(?<!wasb)(?<!wasbs)://[^/?#\s]*@")
FILES = ("sqlite", "duckdb")  # databases that are a file
_LINE = re.compile(r"\(at line [0-9]+")


@dataclass(frozen=True, slots=True)
class Connection:
    """A warehouse or a catalog that sinks and inputs name.

    Attributes:
        url: the database, as SQLAlchemy reads it, or an Iceberg catalog; without a password.
        password: a reference to the password of the URL's role; None where none is asked for.
        options: what else its driver or catalog needs, as text; nothing secret.
    """

    url: str
    password: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profile:
    """The places of one installation; every path is absolute.

    Attributes:
        root: the directory that relative paths start from: that of the profile, or the working directory.
        ledger_url: the ledger's database, as SQLAlchemy reads it.
        ledger_password: a reference to the password of the ledger's role; None where none is asked for.
        master_key: a reference to the master key: `file:PATH`, `env:NAME` or `command:PROGRAM ARGUMENTS`.
        staging: the restricted zone: staged artefacts, for operators only.
        statements: where the statements of sealed releases go.
        spark: settings of the Spark session, as text.
        connections: warehouses and catalogs, by the names that specs call them.
        retention_days: days after its seal for which the staged artefact of a release is kept; None is for
            ever.
        metrics: the file that gets a line of JSON for each run; None for none.
        lineage: the file that gets OpenLineage's events of each run; None for none.
        embedded: whether no profile was given and everything lies under `.dp_spark`.
    """

    root: Path
    ledger_url: str
    master_key: str
    staging: Path
    statements: Path
    spark: Mapping[str, str]
    embedded: bool
    ledger_password: str | None = None
    connections: Mapping[str, Connection] = field(default_factory=dict)
    retention_days: int | None = None
    metrics: Path | None = None
    lineage: Path | None = None


def load_profile(
    path: str | None = None, *, env: Mapping[str, str] = os.environ, cwd: Path | None = None
) -> Profile:
    """The profile at `path`, else at DP_SPARK_PROFILE, else `dp_spark.toml` here, else the embedded one.

    Raises:
        SetupRefused: the file is missing or no TOML, or names everything in it that is wrong.
    """
    here = (cwd or Path.cwd()).absolute()
    chosen = env.get(PROFILE_VARIABLE) if path is None else path
    if chosen is not None:
        origin = PROFILE_VARIABLE if path is None else "--profile"
        file = here / chosen
        if not chosen or not _is_file(file):
            raise _refused(f"{origin} = {shown(chosen)} is not a file", "give the path of a profile, or none")
        return _profile_of(_toml(file), file.parent, f"profile {str(file)!r}", embedded=False)
    file = here / PROFILE_FILE
    if _is_file(file):
        return _profile_of(_toml(file), here, f"profile {str(file)!r}", embedded=False)
    return embedded_profile(here)


def embedded_profile(cwd: Path | None = None) -> Profile:
    """The profile of one machine: everything under `.dp_spark` in the working directory.

    Raises:
        SetupRefused: the path of the working directory holds a character that SQLite's URL cannot.
    """
    return _profile_of(_EMBEDDED, (cwd or Path.cwd()).absolute(), "embedded profile", embedded=True)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _toml(file: Path) -> Mapping[str, object]:
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise _refused(f"profile {str(file)!r} is longer than {MAX_BYTES:,} bytes", "shorten it")
        return tomllib.loads(content.decode())
    except OSError as failure:
        raise _refused(
            f"profile {str(file)!r} cannot be read ({type(failure).__name__})", "check its permissions"
        ) from None
    except (ValueError, RecursionError) as failure:
        # Only the line: the parser may quote characters of a secret.
        line = _LINE.search(str(failure))
        where = line[0].removeprefix("(at ") if line else "it"
        raise _refused(
            f"profile {str(file)!r} is not TOML in UTF-8: see {where}",
            'write key = "value"; `dp-spark init` writes an example',
        ) from None


def _profile_of(written: Mapping[str, object], root: Path, source: str, *, embedded: bool) -> Profile:
    problems = [unknown_key(key, _KEYS) for key in written if key not in _KEYS]
    problems += [
        Problem(f"missing key {key!r}", f"add {key} = {json.dumps(example)}", at=(key,))
        for key, example in _EMBEDDED.items()
        if key not in written
    ]
    read: dict[str, Any] = {"spark": {}, "connections": {}}
    for key, reader in _READERS.items():
        if key in written:
            try:
                read[key] = reader(written[key], root)
            except Wrong as failure:
                problems += [problem.under(key) for problem in failure.problems]
    problems += _conflicts(**read)
    if problems:
        raise _refused(*summary(source, problems))
    return Profile(root=root, embedded=embedded, **read)


def _read_ledger_url(value: object, root: Path) -> str:
    kind, _, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind == "sqlite":
        return _sqlite_url(rest, root)
    if kind == "postgresql+psycopg":
        return _postgres_url(cast(str, value))
    way_out = "write sqlite:///ledger.db, or a URL that begins with postgresql+psycopg://"
    raise Wrong(Problem("names no database that can hold a ledger (value not shown)", way_out, _LEDGERS))


def _sqlite_url(rest: str, root: Path) -> str:
    place = rest.removeprefix("///")
    path = str(root / place)
    if place in (rest, "") or place.startswith(":memory:") or {"?", "#"} & set(path):
        way_out = (
            "write sqlite:///ledger.db; the ledger must outlive the process, and its path hold no ? or #"
        )
        raise Wrong(Problem("names no file that SQLite can keep", way_out, _LEDGERS))
    return f"sqlite:///{read_text(path)}"


def _postgres_url(url: str) -> str:
    parsed = _parsed_url(url, _LEDGERS)
    if parsed.password is not None:
        way_out = "write ledger_password = file:PATH, env:NAME or command:PROGRAM, and replace the password"
        raise Wrong(Problem("holds a password (value not shown)", way_out, _LEDGERS))
    if not parsed.username or not parsed.database:
        raise Wrong(Problem("names no role or no database (value not shown)", f"write {_LEDGERS}", _LEDGERS))
    if not parsed.query.keys() <= _POSTGRES_OPTIONS:
        allowed = ", ".join(sorted(_POSTGRES_OPTIONS))
        raise Wrong(
            Problem("has an option that is not known (value not shown)", f"keep to {allowed}", allowed)
        )
    return url


def _read_reference(value: object, root: Path) -> str:
    source, place = (parse_reference(value) if isinstance(value, str) else None) or (None, "")
    if source is None:
        way_out = "write where the secret is, never the secret itself; if it stood here, replace it"
        raise Wrong(Problem("is no reference (value not shown)", way_out, FORMS))
    if source is Source.FILE:
        place = str(root / read_text(place))
    return f"{source}:{place}"


def _read_connections(value: object, root: Path) -> dict[str, Connection]:
    if not isinstance(value, dict):
        raise Wrong(Problem("is not a table", 'write [connections.NAME] and url = "..." below it'))
    read = read_each(((name, (name, each, root)) for name, each in value.items()), _read_connection)
    return dict(zip(value, read, strict=True))


def _read_connection(written: object) -> Connection:
    name, value, root = cast(tuple[str, object, Path], written)
    if not _CONNECTION_NAME.fullmatch(name):
        why, way_out = "is no name of a connection", "use a-z, 0-9 and _, a letter first"
        raise Wrong(Problem(why, way_out, _CONNECTION_NAME.pattern))
    if not isinstance(value, dict) or "url" not in value:
        raise Wrong(Problem("has no url", 'write url = "postgresql+psycopg://ROLE@HOST/DATABASE"'))
    if unknown := [key for key in value if key not in _CONNECTION_READERS]:
        raise Wrong(*(unknown_key(key, tuple(_CONNECTION_READERS)) for key in unknown))
    read: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, reader in _CONNECTION_READERS.items():
        if key in value:
            try:
                read[key] = reader(value[key], root)
            except Wrong as failure:
                problems += [problem.under(key) for problem in failure.problems]
    if problems:
        raise Wrong(*problems)
    return Connection(**read)


def _connection_url(value: object, root: Path) -> str:
    """The URL; a file's path in it becomes absolute."""
    parsed = _parsed_url(value, "postgresql+psycopg://ROLE@HOST/DATABASE")
    query = parsed.normalized_query.items()
    if parsed.password is not None or any(_may_tell(key, each) for key, told in query for each in told):
        way_out = "write password = file:PATH, env:NAME or command:PROGRAM, and replace the password"
        raise Wrong(Problem("holds a password (value not shown)", way_out))
    if parsed.get_backend_name() not in FILES:
        return cast(str, value)
    file = f"{parsed.drivername}:///{root / (parsed.database or '')}"
    if parsed.host or parsed.query or "?" in file or parsed.database in (None, "", ":memory:"):
        why, way_out = (
            "names no file, or options",
            f"write {parsed.drivername}:///PATH, and options in `options`",
        )
        raise Wrong(Problem(f"{why} (value not shown)", way_out, "a path without ?"))
    return file


def _parsed_url(value: object, example: str) -> sa.URL:
    """The URL; nothing of it is shown when it is none, as it may hold a password."""
    try:
        return sa.make_url(read_text(value))
    except (Wrong, sa.exc.ArgumentError, ValueError):
        raise Wrong(Problem("cannot be read (value not shown)", f"write {example}", example)) from None


def _may_tell(name: str, value: object) -> bool:
    """Whether a setting may hold a secret: by its name, or by names and URLs in its value."""
    if isinstance(value, bool):
        return False
    names = [name, *_ASSIGNED.findall(str(value))]
    return any(map(_SECRET.search, names)) or _USERINFO.search(str(value)) is not None


def _read_options(value: object, root: Path) -> Mapping[str, str]:
    """Options as text; `root` plays no part."""
    if not isinstance(value, dict) or not all(isinstance(each, str | int) for each in value.values()):
        raise Wrong(Problem("is no table of texts", 'write options = {warehouse = "..."}'))
    if secret := [key for key, each in value.items() if _may_tell(key, each)]:
        way_out = "leave it to `password`, or to the environment of the driver"
        raise Wrong(Problem(f"option {shown(secret[0])} may hold a secret (value not shown)", way_out))
    texts = {key: str(each).lower() if isinstance(each, bool) else str(each) for key, each in value.items()}
    return MappingProxyType(texts)


_CONNECTION_READERS: Mapping[str, Callable[[object, Path], object]] = {
    "url": _connection_url,
    "password": _read_reference,
    "options": _read_options,
}


def _read_retention(value: object, root: Path) -> int:
    """Whole days; `root` plays no part."""
    return whole_number(1, _LONGEST_RETENTION)(value)


def _read_directory(value: object, root: Path) -> Path:
    text = read_text(value)
    if "://" in text:
        allowed = "a directory of this machine or a mounted one"
        raise wrong(
            text, "is a URL", allowed=allowed, way_out="write a path such as /srv/dp_spark/restricted"
        )
    return Path(os.path.normpath(root / text))


def _read_file(value: object, root: Path) -> Path:
    text = read_text(value)
    if "://" in text:
        allowed = "a file of this machine or a mounted one"
        raise wrong(text, "is a URL", allowed=allowed, way_out="write a path such as /var/log/dp_spark.jsonl")
    return Path(os.path.normpath(root / text))


def _read_spark(value: object, root: Path) -> dict[str, str]:
    """Spark settings as text; `root` plays no part: paths in them are Spark's."""
    if not isinstance(value, dict):
        raise Wrong(Problem("is not a table", 'write [spark] and lines of "spark.KEY" = VALUE below it'))
    texts = read_each(((key, (key, each)) for key, each in value.items()), _read_setting)
    return dict(zip(value, texts, strict=True))


def _read_setting(setting: object) -> str:
    key, value = cast(tuple[str, object], setting)
    if isinstance(value, dict):
        raise Wrong(Problem("is a table", f'quote the whole key: "{key}.<...>" = VALUE', "settings"))
    if not re.fullmatch(r"spark\.[\w.-]+", key):
        raise Wrong(Problem("is no setting of Spark", "write its full name in quotes", '"spark.<...>"'))
    if key.casefold() in _PINNED:
        raise Wrong(Problem("is set by dp_spark itself, as released numbers depend on it", "remove it"))
    if key.casefold() in _ENGINES:
        why = "is not allowed: another engine may bound or add differently from Spark's own"
        raise Wrong(Problem(why, "remove it; run private releases on Spark's own operators"))
    if _may_tell(key, value):
        way_out = "leave it to spark-defaults.conf, a credentials provider or the environment"
        raise Wrong(Problem("may hold a secret (value not shown)", way_out))
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int):
        raise Wrong(Problem("is no text, whole number or truth value", "put the value in quotes"))
    return str(value)


def _conflicts(spark: Mapping[str, str], **read: Any) -> Iterator[Problem]:
    """What is right alone, but not together."""
    staging, statements = read.get("staging"), read.get("statements")
    if staging and statements and (staging.is_relative_to(statements) or statements.is_relative_to(staging)):
        why = "lies within `statements` or holds it: the restricted zone would be published or hidden with it"
        yield Problem(why, "choose separate directories", "", shown(str(staging)), ("staging",))
    master = spark.get("spark.remote", spark.get("spark.master", "local"))
    if read.get("ledger_url", "").startswith("sqlite:") and not master.startswith("local"):
        why = "is an SQLite file, but Spark runs on other machines too"
        way_out = "keep the ledger in PostgreSQL, or run Spark on this machine: spark.master = local[*]"
        yield Problem(why, way_out, _LEDGERS, at=("ledger_url",))


_READERS: Mapping[str, Callable[[object, Path], object]] = {
    "ledger_url": _read_ledger_url,
    "ledger_password": _read_reference,
    "master_key": _read_reference,
    "staging": _read_directory,
    "statements": _read_directory,
    "connections": _read_connections,
    "retention_days": _read_retention,
    "metrics": _read_file,
    "lineage": _read_file,
    "spark": _read_spark,
}


def _refused(message: str, way_out: str) -> SetupRefused:
    return SetupRefused("profile_refused", message, way_out=way_out)


def render_profile(
    *,
    ledger_url: str = _EMBEDDED["ledger_url"],
    master_key: str = _EMBEDDED["master_key"],
    staging: str = _EMBEDDED["staging"],
    statements: str = _EMBEDDED["statements"],
    spark: Mapping[str, str | int | bool] = MappingProxyType({"spark.master": "local[*]"}),
) -> str:
    """A commented `dp_spark.toml`; as it stands, it names the places of the embedded profile."""
    settings = "".join(f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in spark.items())
    return f"""\
# Where dp_spark keeps things on this installation. Relative paths start from the directory of this file.
# Chosen by --profile PATH, else by DP_SPARK_PROFILE, else found in the working directory.

# The privacy ledger: one SQLite file, which serves one machine, or PostgreSQL, which serves many, such as
# postgresql+psycopg://dp_spark_runner@db.example.org/ledger, its password at ledger_password = "env:NAME".
ledger_url = {json.dumps(ledger_url)}

# Where the master key is, never the key itself: file:PATH, env:NAME or command:PROGRAM.
master_key = {json.dumps(master_key)}

# The restricted zone: releases before they are published. Only operators may read it.
staging = {json.dumps(staging)}

# One page for each sealed release: what was released and how wrong it may be.
statements = {json.dumps(statements)}

# One line of JSON for each run: release, state, seconds, charge, what is left, exit code.
# metrics = "metrics.jsonl"
# OpenLineage's events of each run: what it reads, where it publishes, what it costs; needs dp-spark[lineage].
# lineage = "lineage.jsonl"

# Databases and catalogs that specs call `connection`; `password` says where it is, no URL holds one.
# [connections.warehouse]
# url = "postgresql+psycopg://publisher@db.example.org/warehouse?sslmode=verify-full"
# password = "env:WAREHOUSE_PASSWORD"
# [connections.local]
# url = "duckdb:///warehouse.duckdb"

# Settings of the Spark session. dp_spark sets ANSI mode and the session time zone itself;
# spark.plugins and spark.sql.extensions are refused.
[spark]
{settings}"""


def render_first_spec() -> str:
    """A commented spec to start from: delays of flights by origin, with the aircraft as the unit."""
    return """\
# One release: which rows, whom it protects and how well, what it asks, where it goes.
release: first_release
input: {format: parquet, path: .dp_spark/demo/flights}      # the demo's flights: put your own table here

# One release a day; without this block, every release reads the whole input.
period: {column: date, every: day, timezone: America/New_York}

# Whom the guarantee protects: all rows that share a value of this column.
unit: {column: tailnum, on_null: drop}
neighbours: add_remove

# At most so much of one unit is used; the rest is left out at random.
bounds: {max_groups: 1, max_rows_per_group: 3}

# Groups must be known before any row is read: all of them are released, also the empty ones.
group_by: [origin]
groups: {public: [EWR, JFK, LGA]}

# Of one release. Exact: 1/3 is a third.
guarantee: {epsilon: 1.0, delta: 1e-6}

# Values are clamped to [lower, upper]: choose bounds from public knowledge, not from the data.
queries:
  - {name: flights, kind: count}
  - {name: mean_delay, kind: mean, column: dep_delay, lower: -30, upper: 120}
  - {name: planes, kind: ids}
noise: auto                                       # or laplace, logistic, gaussian

# Whose budget pays: made by `dp-spark ledger`, never by a run.
budget: {population: my_planes}
publish:
  - {sink: parquet, path: out/first_release}
"""
