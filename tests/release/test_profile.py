"""Profiles: which is taken, what is refused, what is never shown."""

import json
import tomllib
from pathlib import Path

import pytest

from dp_spark.errors import ExitCode, SetupRefused
from dp_spark.release.profile import (
    Connection,
    Profile,
    embedded_profile,
    load_profile,
    render_first_spec,
    render_profile,
)
from dp_spark.release.spec import parse_spec

SECRET = "hunter2-s3cr3t"


def written(tmp_path: Path, **changes: object) -> Path:
    """A profile file with some values changed; None leaves a key out."""
    values: dict[str, object] = {
        "ledger_url": "sqlite:///ledger.db",
        "master_key": "file:master.key",
        "staging": "restricted",
        "statements": "statements",
        "spark": {},
    }
    values |= changes
    spark = values.pop("spark")
    connections: dict[str, dict[str, str]] = values.pop("connections", {})  # keys, and values as TOML
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items() if value is not None]
    if isinstance(spark, dict):
        lines += ["[spark]", *(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in spark.items())]
    else:
        lines.insert(0, f"spark = {json.dumps(spark)}")
    for name, connection in connections.items():
        lines += [
            f"[connections.{json.dumps(name)}]",
            *(f"{key} = {text}" for key, text in connection.items()),
        ]
    file = tmp_path / "profile.toml"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def refusal(file: Path) -> str:
    with pytest.raises(SetupRefused) as caught:
        load_profile(str(file), env={})
    assert caught.value.exit_code is ExitCode.SETUP
    assert caught.value.way_out
    text = str(caught.value)
    assert SECRET not in text
    return text


def test_without_a_profile_everything_is_embedded_in_the_working_directory(tmp_path):
    assert load_profile(env={}, cwd=tmp_path) == Profile(
        root=tmp_path,
        ledger_url=f"sqlite:///{tmp_path}/.dp_spark/ledger.db",
        master_key=f"file:{tmp_path}/.dp_spark/master.key",
        staging=tmp_path / ".dp_spark" / "restricted",
        statements=tmp_path / ".dp_spark" / "statements",
        spark={},
        embedded=True,
    )
    assert load_profile(env={}, cwd=tmp_path) == embedded_profile(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_an_sqlite_url_cannot_name_is_refused(tmp_path):
    with pytest.raises(SetupRefused, match="embedded profile: ledger_url"):
        load_profile(env={}, cwd=tmp_path / "what?")


def test_the_rendered_profile_names_the_embedded_places(tmp_path):
    embedded = load_profile(env={}, cwd=tmp_path)
    (tmp_path / "dp_spark.toml").write_text(render_profile())
    found = load_profile(env={}, cwd=tmp_path)
    assert not found.embedded
    assert found.spark == {"spark.master": "local[*]"}
    for place in ("root", "ledger_url", "master_key", "staging", "statements"):
        assert getattr(found, place) == getattr(embedded, place)


def test_a_rendered_profile_holds_whatever_it_was_given():
    given = {"master_key": 'file:/a "b"\\c', "staging": "/é", "spark": {"spark.x": True, "spark.y": 3}}
    read = tomllib.loads(render_profile(**given))
    assert {key: read[key] for key in given} == given


def test_the_argument_goes_before_the_variable_and_the_variable_before_the_directory(tmp_path):
    for name in ("argument", "variable"):
        (tmp_path / name).mkdir()
        written(tmp_path / name)
    (tmp_path / "dp_spark.toml").write_text(render_profile())
    env = {"DP_SPARK_PROFILE": str(tmp_path / "variable/profile.toml")}
    assert load_profile("argument/profile.toml", env=env, cwd=tmp_path).root == tmp_path / "argument"
    assert load_profile(env=env, cwd=tmp_path).root == tmp_path / "variable"
    assert load_profile(env={}, cwd=tmp_path).root == tmp_path


def test_relative_paths_start_from_the_profile(tmp_path):
    profile = load_profile(str(written(tmp_path)), env={}, cwd=Path("/"))
    assert profile.ledger_url == f"sqlite:///{tmp_path}/ledger.db"
    assert profile.master_key == f"file:{tmp_path}/master.key"
    assert profile.staging == tmp_path / "restricted"
    absolute = written(tmp_path, ledger_url="sqlite:////srv/l.db", master_key="file:/srv/k", staging="/srv/s")
    profile = load_profile(str(absolute), env={})
    assert (profile.ledger_url, profile.master_key) == ("sqlite:////srv/l.db", "file:/srv/k")
    assert profile.staging == Path("/srv/s")


@pytest.mark.parametrize("path", ["", "no.toml", ".", "a\0b", "x" * 5000])
def test_a_profile_that_is_not_there_is_refused(tmp_path, path):
    for arguments, origin in (
        ((path, {}), "--profile"),
        ((None, {"DP_SPARK_PROFILE": path}), "DP_SPARK_PROFILE"),
    ):
        with pytest.raises(SetupRefused, match=f"{origin} = .* is not a file"):
            load_profile(arguments[0], env=arguments[1], cwd=tmp_path)


@pytest.mark.parametrize("key", ["ledger_url", "master_key", "staging", "statements"])
def test_a_missing_key_is_named_with_an_example(tmp_path, key):
    assert f"missing key '{key}'" in refusal(written(tmp_path, **{key: None}))


def test_every_problem_is_told_at_once(tmp_path):
    told = refusal(
        written(tmp_path, staging="s3://b", statements=3, ledger_url="x", spark={"spark.plugins": "a"})
    )
    assert "4 problems" in told


@pytest.mark.parametrize(
    ("key", "nearest"), [("ledger_ur", "ledger_url"), ("stageing", "staging"), ("Spark", "spark")]
)
def test_an_unknown_key_names_the_nearest_and_not_its_value(tmp_path, key, nearest):
    assert f"unknown key '{key}': did you mean '{nearest}'?" in refusal(written(tmp_path, **{key: SECRET}))


@pytest.mark.parametrize(
    "value",
    [
        SECRET,
        *(f"{kind}:{SECRET}" for kind in ("literal", "env", "FILE")),
        "",
        3,
        "file:",
        "env:",
        "command: ",
    ],
)
def test_a_master_key_that_is_no_reference_is_refused_and_not_shown(tmp_path, value):
    told = refusal(written(tmp_path, master_key=value))
    assert "master_key: is no reference (value not shown) (allowed: file:PATH, env:NAME or command:" in told


def test_a_master_key_may_be_in_the_environment(tmp_path):
    assert (
        load_profile(str(written(tmp_path, master_key="env:DP_KEY_1")), env={}).master_key == "env:DP_KEY_1"
    )


@pytest.mark.parametrize(
    "url",
    [
        "", 3, "ledger.db", f"mysql://u:{SECRET}@h/d", f"sqlite://u:{SECRET}@h/d", "sqlite://", "sqlite:///",
        "sqlite:///:memory:", "sqlite:///a?mode=memory", f"postgresql://u:{SECRET}@h/d",
        f"postgresql+psycopg://u:{SECRET}@h/d", "postgresql+psycopg://h/d", "postgresql+psycopg://u@h",
    ],
)  # fmt: skip
def test_a_ledger_url_that_names_no_ledger_is_refused_and_no_password_shown(tmp_path, url):
    assert "(allowed: sqlite:///PATH or postgresql+psycopg://ROLE@HOST/DATABASE)" in refusal(
        written(tmp_path, ledger_url=url)
    )


@pytest.mark.parametrize("setting", [{"spark.master": "yarn"}, {"spark.remote": "sc://host"}])
def test_a_ledger_in_a_file_serves_no_cluster(tmp_path, setting):
    assert "ledger_url: is an SQLite file, but Spark runs" in refusal(written(tmp_path, spark=setting))


def test_a_ledger_on_a_server_serves_a_cluster_and_names_where_its_password_is(tmp_path):
    url = "postgresql+psycopg://runner@db.example/ledger?sslmode=verify-full"
    file = written(tmp_path, ledger_url=url, ledger_password="file:pw", spark={"spark.master": "yarn"})
    profile = load_profile(str(file), env={})
    assert (profile.ledger_url, profile.ledger_password) == (url, f"file:{tmp_path}/pw")


def test_a_password_is_refused_wherever_it_stands(tmp_path):
    assert "ledger_password: is no reference" in refusal(written(tmp_path, ledger_password=SECRET))
    option = f"postgresql+psycopg://u@h/d?password={SECRET}"
    assert "has an option that is not known" in refusal(written(tmp_path, ledger_url=option))


# --- connections -------------------------------------------------------------------------------------------

SERVER = '"postgresql+psycopg://u@h/d"'


def test_connections_say_where_databases_and_their_passwords_are(tmp_path):
    given = {
        "warehouse": {
            "url": SERVER,
            "password": '"file:pw"',
            "options": "{sslmode = 'require', n = 3, b = true}",
        },
        "local": {"url": '"duckdb:///data/w.duckdb"'},
        "absolute": {"url": '"sqlite:////srv/catalog.db"'},
        "catalog": {"url": '"https://catalog.example.org/v1"'},
    }
    found = load_profile(str(written(tmp_path, connections=given)), env={}).connections
    assert found["warehouse"] == Connection(
        json.loads(SERVER), f"file:{tmp_path}/pw", {"sslmode": "require", "n": "3", "b": "true"}
    )
    assert found["local"] == Connection(f"duckdb:///{tmp_path}/data/w.duckdb")
    assert [found[name].url for name in ("absolute", "catalog")] == [
        "sqlite:////srv/catalog.db", "https://catalog.example.org/v1",
    ]  # fmt: skip
    assert load_profile(str(written(tmp_path)), env={}).connections == {}


@pytest.mark.parametrize(
    ("written_as", "words"),
    [
        ({"url": f'"postgresql+psycopg://u:{SECRET}@h/d"'}, "holds a password (value not shown)"),
        ({"url": f'"snowflake://u@h/d?token={SECRET}"'}, "holds a password (value not shown)"),
        ({"url": f'"{SECRET}"'}, "cannot be read (value not shown)"),
        ({"url": f'"postgresql://u:{SECRET}@h/d\\n"'}, "cannot be read (value not shown)"),
        ({"url": f'"postgresql://u:{SECRET}@h:port/d"'}, "cannot be read (value not shown)"),
        ({"url": SERVER, "password": f'"{SECRET}"'}, "password: is no reference (value not shown)"),
        ({"url": SERVER, "options": f"{{private_key = '{SECRET}'}}"}, "may hold a secret (value not shown)"),
        *(({"url": f'"{url}{SECRET}"'}, "holds a password (value not shown)")
          for url in ("mssql+pyodbc:///?odbc_connect=", "mssql+pyodbc://u@h/d?pwd=", "https://h/v1?sig=",
                      "https://h/v1?authorization=", "snowflake://u@h/d?passcode=", "x://u@h/d?dsn=PWD%3D")),
        *(({"url": SERVER, "options": f"{{{option}{SECRET}'}}"}, "may hold a secret (value not shown)")
          for option in ("'header.Authorization' = '", "'adls.account-key' = '", "pwd = '", "sas = '",
                         "'adls.connection-string' = '", "uri = 'https://h/v1?sig=", "dsn = 'UID=u;PWD=")),
        *(({"url": SERVER, "options": f"{{warehouse = '{url}'}}"}, "may hold a secret (value not shown)")
          for url in (f"s3://key:{SECRET}@bucket", f"s3://key:a/{SECRET}@bucket", f"https://{SECRET}@h",
                      f"abfss://c:{SECRET}@account/x")),
        ({"url": SERVER, "options": f"{{a = ['{SECRET}']}}"}, "is no table of texts"),
        ({"url": SERVER, "options": f"'{SECRET}'"}, "is no table of texts"),
        ({"url": SERVER, "pasword": f'"{SECRET}"'}, "unknown key 'pasword': did you mean 'password'?"),
        ({"password": '"env:A"'}, "has no url"),
        ({"url": "3"}, "cannot be read"),
        *(({"url": f'"{url}"'}, "names no file, or options (value not shown)")
          for url in ("duckdb://", "duckdb:///", "duckdb:///:memory:", "duckdb://w.db", "duckdb:///w.db?threads=1")),
    ],
)  # fmt: skip
def test_a_connection_that_is_wrong_is_refused_and_its_secrets_are_not_shown(tmp_path, written_as, words):
    told = refusal(written(tmp_path, connections={"warehouse": written_as}))
    assert "connections" in told
    assert words in told


@pytest.mark.parametrize("name", ["Warehouse", "1a", "a-b", "", "a b", "a" * 65])
def test_a_name_that_no_spec_could_call_is_refused(tmp_path, name):
    assert "is no name of a connection" in refusal(written(tmp_path, connections={name: {"url": SERVER}}))


def test_a_ledger_url_that_cannot_be_read_is_not_shown(tmp_path):
    url = f"postgresql+psycopg://u:{SECRET}@h/d\n"
    assert "cannot be read (value not shown)" in refusal(written(tmp_path, ledger_url=url))


def test_the_commented_connections_of_the_rendered_profile_are_some(tmp_path):
    lines = render_profile().splitlines()
    first = lines.index("# [connections.warehouse]")
    text = "\n".join([*lines[:first], *(line.removeprefix("# ") for line in lines[first : first + 5])])
    (tmp_path / "dp_spark.toml").write_text(text)
    found = load_profile(env={}, cwd=tmp_path).connections
    assert set(found) == {"warehouse", "local"}
    assert found["warehouse"].password == "env:WAREHOUSE_PASSWORD"


def test_spark_settings_are_texts(tmp_path):
    settings = {"spark.a": "x", "spark.b": 8, "spark.ui.enabled": False, "spark.c": True}
    assert load_profile(str(written(tmp_path, spark=settings)), env={}).spark == {
        "spark.a": "x",
        "spark.b": "8",
        "spark.ui.enabled": "false",
        "spark.c": "true",
    }


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("spark.sql.ansi.enabled", False, "is set by dp_spark itself"),
        ("spark.sql.session.timeZone", "CET", "is set by dp_spark itself"),
        ("spark.SQL.ansi.enabled", False, "is set by dp_spark itself"),
        ("spark.sql.files.ignoreMissingFiles", True, "is set by dp_spark itself"),
        ("spark.sql.files.ignoreCorruptFiles", True, "is set by dp_spark itself"),
        ("spark.plugins", "com.nvidia.spark.SQLPlugin", "another engine"),
        ("spark.sql.extensions", "x", "another engine"),
        ("spark.hadoop.fs.s3a.secret.key", SECRET, "may hold a secret"),
        ("spark.hadoop.fs.s3a.access.key", SECRET, "may hold a secret"),
        ("spark.ssl.keyPassword", SECRET, "may hold a secret"),
        ("spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net", SECRET, "may hold a secret"),
        ("spark.hadoop.fs.azure.sas.c.a.blob.core.windows.net", SECRET, "may hold a secret"),
        ("spark.hadoop.fs.azure.sas.fixed.token.a", SECRET, "may hold a secret"),
        ("spark.sql.warehouse.dir", f"s3a://key:{SECRET}@bucket/x", "may hold a secret"),
        ("spark.driver.extraJavaOptions", f"-Da=b -DtrustStorePassword={SECRET}", "may hold a secret"),
        ("master", "local", "is no setting of Spark"),
        ("spark.a", 1.5, "put the value in quotes"),
        ("spark.a", [1], "put the value in quotes"),
    ],
)
def test_settings_that_change_answers_or_hold_secrets_are_refused(tmp_path, key, value, words):
    assert words in refusal(written(tmp_path, spark={key: value}))


def test_settings_that_only_look_like_secrets_are_taken(tmp_path):
    settings = {
        "spark.hadoop.hadoop.security.authorization": True,
        "spark.hadoop.fs.azure.account.auth.type": "OAuth",
        "spark.sql.warehouse.dir": "abfss://container@account.dfs.core.windows.net/x",
        "spark.driver.extraJavaOptions": "-Da=b:c -XX:+UseG1GC",
    }
    options = "{'rest.sigv4-enabled' = true, 'rest.signing-name' = 'glue', sslkey = '/a', email = 'a@b'}"
    connections = {"lake": {"url": '"https://h/v1?design=a"', "options": options}}
    profile = load_profile(str(written(tmp_path, spark=settings, connections=connections)), env={})
    assert profile.spark == settings | {"spark.hadoop.hadoop.security.authorization": "true"}
    assert profile.connections["lake"].options["rest.sigv4-enabled"] == "true"


def test_an_unquoted_setting_is_refused_with_how_to_write_it(tmp_path):
    file = written(tmp_path)
    file.write_text(file.read_text() + '\nspark.master = "local"\n')
    assert "quote the whole key" in refusal(file)
    assert "is not a table" in refusal(written(tmp_path, spark="local"))


@pytest.mark.parametrize(
    ("staging", "statements"), [("a", "a"), ("a/b", "a"), ("a", "a/b"), ("a/../b", "b"), (".", "a")]
)
def test_the_restricted_zone_and_the_statements_are_apart(tmp_path, staging, statements):
    assert "staging = " in refusal(written(tmp_path, staging=staging, statements=statements))


@pytest.mark.parametrize("place", ["", 3, "s3://bucket/x", "a\nb"])
@pytest.mark.parametrize("key", ["staging", "statements"])
def test_a_directory_is_a_path_on_this_machine(tmp_path, key, place):
    assert f"{key} = {place!r}" in refusal(written(tmp_path, **{key: place}))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f'master_key = "{SECRET}\n'.encode(), "see line 1"),
        (f"a = 1\nmaster_key = {SECRET}\n".encode(), "see line 2"),
        (b"a = 1\na = 2\n", "see line 2"),
        (b"\xff", "is not TOML in UTF-8"),
        (b"a = " + b"[" * 100_000, "is not TOML in UTF-8"),
        (b"#" * 1_000_001, "longer than 1,000,000 bytes"),
        (b"", "missing key"),
    ],
    ids=["string", "literal", "twice", "latin", "deep", "long", "empty"],
)
def test_a_file_that_is_no_profile_is_refused_without_its_text(tmp_path, content, words):
    (tmp_path / "bad.toml").write_bytes(content)
    told = refusal(tmp_path / "bad.toml")
    assert words in told
    assert "bad.toml" in told


def test_the_first_spec_is_a_spec():
    spec = parse_spec(render_first_spec())
    assert spec.release == "first_release"
    assert spec.groups.size == 3
    assert sum(line.startswith("#") for line in render_first_spec().splitlines()) > 5


def test_staged_tables_are_kept_for_ever_or_for_whole_days(tmp_path):
    assert load_profile(str(written(tmp_path)), env={}).retention_days is None
    assert load_profile(str(written(tmp_path, retention_days=90)), env={}).retention_days == 90
    for wrong in (0, -1, 1.5, True, "soon", 36_601):
        assert "retention_days" in refusal(written(tmp_path, retention_days=wrong))
