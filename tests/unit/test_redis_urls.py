"""Which client is made from which URL and options; nothing here connects."""

from __future__ import annotations

import re
import ssl
import traceback
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from redis.credentials import CredentialProvider, UsernamePasswordCredentialProvider
from redis.sentinel import SentinelManagedSSLConnection

from redisbeater import RedisScheduler
from redisbeater.config.settings import Config
from redisbeater.config.urls import RedisUrl, Topology
from redisbeater.config.values import PREFIX
from redisbeater.context import Context
from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.store.client import make_client

SECRET = "hunter2"
SERVICE = {"service_name": "mymaster"}


def app_with(**settings: Any) -> Celery:
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update({f"{PREFIX}{name}": value for name, value in settings.items()})
    return app


def config(url: str, **settings: Any) -> Config:
    return Config.from_app(app_with(redis_url=url, **settings))


def client(url: str, options: dict[str, Any] | None = None, **settings: Any) -> redis.Redis:
    """Return the client of a server or of Sentinels; it is not connected."""
    return make_client(config(url, redis_options=options or {}, **settings)).get()  # type: ignore[no-any-return]


def connection(client: redis.Redis) -> dict[str, Any]:
    """Return the arguments of each connection of a client."""
    return client.connection_pool.connection_kwargs


def sentinels(client: redis.Redis) -> list[redis.Redis]:
    return client.connection_pool.sentinel_manager.sentinels  # type: ignore[attr-defined, no-any-return]


def addresses(clients: list[redis.Redis]) -> list[tuple[str, int]]:
    return [(connection(each)["host"], connection(each)["port"]) for each in clients]


# -- the parts of a URL


@pytest.mark.parametrize(
    ("url", "topology", "hosts"),
    [
        pytest.param("redis://a:1/2", Topology.SERVER, ["redis://a:1/2"], id="server"),
        pytest.param("unix:///run/a@b.sock?db=1", Topology.SERVER, ["unix:///run/a@b.sock?db=1"], id="socket"),
        pytest.param("sentinel://a", Topology.SENTINEL, ["redis://a:26379"], id="sentinel-port"),
        pytest.param("sentinel://a:1;sentinel://b:2", Topology.SENTINEL, ["redis://a:1", "redis://b:2"], id="kombu"),
        pytest.param("sentinel://a:1;b:2,c/3", Topology.SENTINEL,
                     ["redis://a:1/3", "redis://b:2/3", "redis://c:26379/3"], id="short-list"),
        pytest.param("sentinel://:x@a:1/3;sentinel://:x@b:2/3", Topology.SENTINEL,
                     ["redis://:x@a:1/3", "redis://:x@b:2/3"], id="credentials-repeated"),
        pytest.param("sentinel://a:1;sentinel://:x@b:2/3?client_name=n", Topology.SENTINEL,
                     ["redis://:x@a:1/3?client_name=n", "redis://:x@b:2/3?client_name=n"], id="credentials-once"),
        pytest.param("rediss-sentinel://a", Topology.SENTINEL, ["rediss://a:26379"], id="sentinel-tls"),
        pytest.param("redis-cluster://a,b:7001", Topology.CLUSTER, ["redis://a:6379", "redis://b:7001"], id="cluster"),
        pytest.param("rediss-cluster://u:x@a", Topology.CLUSTER, ["rediss://u:x@a:6379"], id="cluster-tls"),
        pytest.param("redis-cluster://[::1]:1,a,[::2]", Topology.CLUSTER,
                     ["redis://[::1]:1", "redis://a:6379", "redis://[::2]:6379"], id="ipv6"),
        pytest.param("redis-cluster://:x,y;z@a,b", Topology.CLUSTER,
                     ["redis://:x,y;z@a:6379", "redis://:x,y;z@b:6379"], id="separators-in-password"),
        pytest.param("redis-cluster://", Topology.CLUSTER, [], id="no-host"),
    ],
)  # fmt: skip
def test_a_url_names_a_topology_and_hosts(url: str, topology: Topology, hosts: list[str]) -> None:
    parsed = RedisUrl.read("url", url)

    assert (parsed.topology, list(parsed.hosts)) == (topology, hosts)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        pytest.param(f"redis://user:{SECRET}@a:1/2?password={SECRET}", "redis://a:1/2", id="server"),
        pytest.param(f"unix://:{SECRET}@/run/redis.sock", "unix:///run/redis.sock", id="socket"),
        pytest.param(f"redis://:{SECRET}@x@a:1", "redis://a:1", id="at-sign-in-password"),
        pytest.param(f"sentinel://:{SECRET}@a:1;sentinel://:{SECRET}@b:2/3", "sentinel://a:1,b:2/3", id="sentinel"),
        pytest.param(f"redis-cluster://u:1,{SECRET}@a:1,b:2", "redis-cluster://a:1,b:2", id="cluster"),
    ],
)
def test_a_url_is_shown_without_credentials(url: str, shown: str) -> None:
    options = {} if url.startswith("redis-cluster") else SERVICE
    app = app_with(redis_url=url, redis_options=options if url.startswith("sentinel") else {})

    assert RedisUrl.read("url", url).address == shown
    assert f"-> {shown}\n" in RedisScheduler(app).info
    assert SECRET not in repr(RedisUrl.read("url", url)) + repr(Config.from_app(app))


@pytest.mark.parametrize(
    "url",
    [
        pytest.param(f"sentinel://:{SECRET}", id="no-host"),
        pytest.param(f"sentinel://:{SECRET}/x@a:1", id="slash-in-password"),
        pytest.param(f"redis-cluster://user:1/{SECRET}@a:1", id="number-then-slash-in-password"),
        pytest.param(f"redis://user:1/{SECRET}@a:1", id="number-then-slash-in-a-server-s-password"),
        pytest.param(f"redis-cluster://user:1#{SECRET}@a:1", id="hash-in-password"),
        pytest.param(f"redis-cluster://[{SECRET}", id="bracket"),
        pytest.param(f"sentinel://a:1;redis://:{SECRET}@b", id="another-scheme"),
        pytest.param(f"sentinel://:{SECRET}@a:port", id="port-is-a-word"),
        pytest.param(f"redis://:1234?{SECRET}@a:1", id="number-then-question-mark-in-password"),
        pytest.param(f"sentinel://a:1?{SECRET}@b:1", id="question-mark-in-a-sentinel-s-password"),
    ],
)
def test_the_error_of_an_invalid_url_does_not_show_its_password(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="redisbeater_redis_url is not a URL") as refused:
        config(url, redis_options=SERVICE)

    assert SECRET not in "".join(traceback.format_exception(refused.value)) + repr(refused.value.__context__)


@pytest.mark.parametrize("url", ["redis://a/", "rediss://a:1/", "sentinel://a:1/", "redis-cluster://a,b/"])
def test_a_database_that_is_no_number_is_refused_without_showing_it(url: str) -> None:
    problem = "redisbeater_redis_url: the database is not a number; end the URL as in redis://host:6379/0"

    with pytest.raises(ImproperlyConfigured, match=f"^{re.escape(problem)}$") as refused:
        config(url + SECRET, redis_options=SERVICE)

    assert SECRET not in "".join(traceback.format_exception(refused.value)) + repr(refused.value.__context__)


@pytest.mark.parametrize("url", ["unix://", "unix:///", "unix://run/redis.sock", f"unix://:x/{SECRET}@/run/redis.sock"])
def test_a_socket_without_a_whole_path_is_refused(url: str) -> None:
    with pytest.raises(
        ImproperlyConfigured, match=r"redisbeater_redis_url: .* as in unix:///run/redis\.sock"
    ) as refused:
        config(url)

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("url", ["redis://a,b:6379/0", "rediss://a;rediss://b/0", f"redis://:{SECRET}@a;redis://b"])
def test_several_hosts_of_one_server_are_refused(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"several hosts.* sentinel:// or redis-cluster://") as refused:
        config(url)

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "options", "shown"),
    [
        pytest.param("redis://a:1/2", {"db": 5}, "redis-cli -u redis://a:1/2", id="path"),
        pytest.param("redis://a:1/2?db=3", {"db": 5}, "redis-cli -u redis://a:1/2 -n 3", id="query"),
        pytest.param("redis://a:1", {"db": 5}, "redis-cli -u redis://a:1 -n 5", id="options"),
        pytest.param("unix:///run/r.sock", {}, "redis-cli -s /run/r.sock", id="socket"),
        pytest.param("unix:///run/r.sock?db=1", {}, "redis-cli -s /run/r.sock -n 1", id="socket-query"),
        pytest.param("unix:///run/r.sock", {"db": 1}, "redis-cli -s /run/r.sock -n 1", id="socket-options"),
    ],
)
def test_redis_cli_is_shown_with_the_database_that_is_used(url: str, options: dict[str, Any], shown: str) -> None:
    context = Context.of(app_with(redis_url=url, redis_options=options))

    assert context.redis.command_line == shown
    assert str(connection(client(url, options)).get("db", 0)) == (re.findall(r"\d$", shown) or ["0"])[0]


@pytest.mark.parametrize(
    "url", ["sentinel://a/0?retry=1", "sentinel://a?retry=1;sentinel://b", "redis-cluster://a,b?retry=1"]
)
def test_an_option_that_redisbeater_sets_itself_is_refused_in_every_kind_of_url(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"redisbeater_redis_url\['retry'\]: .*remove it"):
        config(url)


# -- the URL of the broker


@pytest.mark.parametrize(
    "broker", ["sentinel://a:1;sentinel://b:2/3", ["sentinel://a:1", "sentinel://b:2/3"]], ids=["text", "list"]
)
def test_all_sentinels_of_the_broker_are_used(broker: Any) -> None:
    app = Celery("proj", broker=broker, set_as_current=False)

    assert Config.from_app(app).redis_url == "sentinel://a:1;sentinel://b:2/3"


def test_the_database_of_a_socket_is_where_kombu_has_it() -> None:
    app = Celery("proj", broker="redis+socket:///run/redis.sock?virtual_host=2", set_as_current=False)

    assert Config.from_app(app).redis_url == "unix:///run/redis.sock?db=2"


def test_the_error_of_the_broker_s_url_names_the_broker() -> None:
    app = Celery("proj", broker="redis://a/word", set_as_current=False)

    with pytest.raises(ImproperlyConfigured, match=r"^broker_url: the database is not a number"):
        Config.from_app(app)


def test_no_option_of_the_broker_is_used() -> None:
    app = Celery("proj", broker="sentinel://a:1", set_as_current=False)
    app.conf.broker_transport_options = {"master_name": "mymaster"}

    with pytest.raises(ImproperlyConfigured, match=r"set redisbeater_redis_options = {'service_name': 'mymaster'}"):
        Context.of(app)


# -- Sentinel


def test_the_error_of_sentinels_without_a_service_name_shows_the_fix() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"set redisbeater_redis_options = {'service_name': 'mymaster'}"):
        client("sentinel://a:1", {"master_name": ""})


@pytest.mark.parametrize("option", ["service_name", "master_name"])
def test_the_service_name_may_have_the_name_of_kombu_or_of_redbeat(option: str) -> None:
    made = client("sentinel://a:1;sentinel://b/3", {option: "eu"})

    assert made.connection_pool.service_name == "eu"  # type: ignore[attr-defined]
    assert addresses(sentinels(made)) == [("a", 1), ("b", 26379)]
    assert connection(made)["db"] == 3


def test_the_options_of_redbeat_take_precedence_over_its_url() -> None:
    options = {
        "sentinels": [("a", 1), ("b", 2)],
        "service_name": "eu",
        "password": "of the master",
        "sentinel_kwargs": {"password": "of the Sentinels"},
        "db": 5,
    }

    made = client("redis-sentinel://redis-sentinel:26379/0", options)

    assert addresses(sentinels(made)) == [("a", 1), ("b", 2)]
    assert (connection(made)["password"], connection(made)["db"]) == ("of the master", 5)
    assert connection(sentinels(made)[0])["password"] == "of the Sentinels"


def test_credentials_in_the_url_are_those_of_the_master() -> None:
    made = client(f"sentinel://user:{SECRET}@a:1", SERVICE)

    assert (connection(made)["username"], connection(made)["password"]) == ("user", SECRET)
    assert connection(sentinels(made)[0])["password"] is None


@pytest.mark.parametrize("given", ["a:1", [("a", "x")], ["a"], 1, [{"host": "a"}]], ids=repr)
def test_sentinels_that_are_not_pairs_are_refused(given: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"redis_options\['sentinels'\]: expected a list of \(host, port\)"):
        client("redis-sentinel://x", {**SERVICE, "sentinels": given})


@pytest.mark.parametrize(
    ("url", "use_ssl", "master", "watchers"),
    [
        pytest.param("sentinel://a", False, False, False, id="plain"),
        pytest.param("sentinel://a", True, True, False, id="of-the-master-as-in-celery"),
        pytest.param("redis-sentinel://a", {"ssl_cert_reqs": "none"}, True, False, id="with-options"),
        pytest.param("rediss-sentinel://a", False, True, True, id="all"),
    ],
)
def test_scheme_and_setting_decide_which_connections_use_tls(
    url: str, use_ssl: Any, master: bool, watchers: bool
) -> None:
    made = client(url, SERVICE, redis_use_ssl=use_ssl)

    assert issubclass(made.connection_pool.connection_class, SentinelManagedSSLConnection) == master
    assert issubclass(sentinels(made)[0].connection_pool.connection_class, redis.SSLConnection) == watchers


# -- Cluster


@pytest.mark.parametrize("scheme", ["redis-cluster", "rediss-cluster"])
def test_on_a_cluster_the_prefix_has_a_hash_tag_by_default(scheme: str) -> None:
    assert config(f"{scheme}://a").key_prefix == "{redisbeater}:"


@pytest.mark.parametrize("prefix", ["{x}:", "a{x}b:", "{x}{}:", "{{x}}:"])
def test_on_a_cluster_a_prefix_with_a_hash_tag_is_accepted(prefix: str) -> None:
    assert config("redis-cluster://a", key_prefix=prefix).key_prefix == prefix


@pytest.mark.parametrize(
    ("prefix", "fix"),
    [
        pytest.param("redbeat:", "{redbeat}:", id="no-braces"),
        pytest.param("{}x:", "{x}:", id="empty-braces"),
        pytest.param("{}{x}:", "{x}:", id="empty-braces-first"),
        pytest.param("x{:", "{x}:", id="left-open"),
        pytest.param("}x{:", "{x}:", id="the-wrong-way-round"),
        pytest.param(":", "{redisbeater}:", id="no-name"),
    ],
)
def test_on_a_cluster_a_prefix_without_a_hash_tag_is_refused_with_the_fix(prefix: str, fix: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        config("redis-cluster://a", key_prefix=prefix)

    assert f"redisbeater_key_prefix = {prefix!r}: a cluster needs a hash tag" in str(refused.value)
    assert f"set it to {fix!r}" in str(refused.value)


def test_without_a_cluster_a_prefix_needs_no_hash_tag() -> None:
    assert config("sentinel://a").key_prefix == "redisbeater:"


@pytest.mark.parametrize(("url", "options"), [("redis-cluster://a/1", {}), ("redis-cluster://a", {"db": 1})])
def test_another_database_of_a_cluster_is_refused(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(ImproperlyConfigured, match="a cluster has one database, 0"):
        make_client(config(url, redis_options=options))


def test_the_nodes_of_a_cluster_may_be_in_the_option_of_redbeat() -> None:
    client = make_client(config("redis-cluster://", redis_options={"startup_nodes": [{"host": "a", "port": "1"}]}))

    assert vars(client)["_hosts"] == [("a", 1)]


def test_a_cluster_without_a_node_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match="redisbeater_redis_url names no host"):
        make_client(config("redis-cluster://"))


def test_tls_options_are_accepted_only_with_a_tls_url_of_a_cluster() -> None:
    make_client(config("rediss-cluster://a", redis_use_ssl={"ssl_cert_reqs": "none"}))

    with pytest.raises(ImproperlyConfigured, match="use rediss-cluster:// in redisbeater_redis_url"):
        config("redis-cluster://a", redis_use_ssl=True)


# -- options


@pytest.mark.parametrize("url", ["redis://a", "rediss://a", "unix:///run/redis.sock", "sentinel://a"])
def test_redis_py_retries_nothing_and_replies_are_text(url: str) -> None:
    options = connection(client(url, SERVICE if url.startswith("sentinel") else {}))

    assert options["retry"]._retries == 0
    assert (options["decode_responses"], options["encoding_errors"]) == (True, "surrogateescape")
    assert (options["socket_timeout"], options["health_check_interval"]) == (5, 30)


def test_a_sentinel_is_asked_once_and_with_a_time_out() -> None:
    options = connection(sentinels(client("sentinel://a", SERVICE))[0])

    assert options["retry"]._retries == 0
    assert (options["socket_timeout"], options["socket_connect_timeout"]) == (5, 5)


def test_time_outs_apply_to_sentinels_unless_these_have_their_own() -> None:
    options = {**SERVICE, "socket_timeout": 1, "socket_connect_timeout": 2}
    assert connection(sentinels(client("sentinel://a", options))[0])["socket_timeout"] == 1

    made = client("sentinel://a", {**options, "sentinel_kwargs": {"socket_timeout": 0.5}})
    assert (connection(made)["socket_timeout"], connection(sentinels(made)[0])["socket_timeout"]) == (1, 0.5)
    assert connection(sentinels(made)[0])["socket_connect_timeout"] == 2


@pytest.mark.parametrize("url", ["redis://a", "sentinel://a", "redis-cluster://a"])
def test_the_error_of_the_option_ssl_shows_the_fix(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="for TLS use rediss://"):
        make_client(config(url, redis_options={**(SERVICE if url.startswith("sentinel") else {}), "ssl": True}))


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("redis://a?ssl_cert_reqs=none", {}),
        ("redis://a", {"ssl_ca_certs": "x"}),
        ("redis-cluster://a", {"ssl_ca_certs": "x"}),
    ],
)
def test_an_option_of_tls_without_tls_is_refused_with_the_fix(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"'ssl_\w+' is an option of TLS; for TLS use rediss://"):
        make_client(config(url, redis_options=options))


@pytest.mark.parametrize(
    ("url", "option", "problem"),
    [
        ("redis://a", "service_name", "is an option of sentinel://; remove it, or use sentinel://"),
        ("redis-cluster://a", "master_name", "is an option of sentinel://; remove it, or use sentinel://"),
        ("redis://a", "startup_nodes", "is an option of redis-cluster://; remove it, or use redis-cluster://"),
        ("sentinel://a", "require_full_coverage", "is an option of redis-cluster://; remove it"),
        ("redis://a", "path", "is an option of unix://; remove it, or use unix://"),
        ("unix:///run/redis.sock", "host", "is no option of unix://; remove it"),
    ],
)
def test_an_option_of_another_kind_of_url_is_refused_with_the_kind(url: str, option: str, problem: str) -> None:
    options = {**(SERVICE if url.startswith("sentinel") else {}), option: "x"}

    with pytest.raises(ImproperlyConfigured) as refused:
        make_client(config(url, redis_options=options))

    assert f"redisbeater_redis_options: {option!r} {problem}" in str(refused.value)


@pytest.mark.parametrize("url", ["redis://a", "rediss://a", "sentinel://a", "redis-cluster://a", "rediss-cluster://a"])
@pytest.mark.parametrize("option", ["no_such", "read_from_replicas", "retry_period"])
def test_an_option_that_redis_py_does_not_know_is_refused(url: str, option: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"redisbeater_redis_options: .*{option}"):
        make_client(config(url, redis_options={**(SERVICE if url.startswith("sentinel") else {}), option: True}))


def test_an_option_that_the_client_of_a_sentinel_does_not_know_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"redisbeater_redis_options: .*no_such"):
        client("sentinel://a", {**SERVICE, "sentinel_kwargs": {"no_such": 1}})


def test_a_number_among_the_options_of_sentinels_is_checked() -> None:
    with pytest.raises(
        ImproperlyConfigured, match=r"\['sentinel_kwargs'\]\['socket_timeout'\] = '5': expected seconds"
    ):
        client("sentinel://a", {**SERVICE, "sentinel_kwargs": {"socket_timeout": "5"}})


@pytest.mark.parametrize("url", ["redis://a", "sentinel://a", "redis-cluster://a"])
@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        pytest.param("socket_timeout", "5", "seconds", id="text"),
        pytest.param("socket_timeout", 0, "seconds", id="no-time"),
        pytest.param("socket_connect_timeout", -5, "seconds", id="negative"),
        pytest.param("health_check_interval", "30", "seconds", id="text-of-an-interval"),
        pytest.param("max_connections", "10", "a whole number", id="text-of-a-number"),
    ],
)
def test_an_option_that_would_fail_at_the_first_call_is_refused(
    url: str, option: str, value: Any, expected: str
) -> None:
    options = {**(SERVICE if url.startswith("sentinel") else {}), option: value}

    with pytest.raises(ImproperlyConfigured) as refused:
        make_client(config(url, redis_options=options))

    assert str(refused.value).startswith(f"redisbeater_redis_options[{option!r}] = {value!r}: expected {expected}")


def test_waiting_without_an_end_is_an_option() -> None:
    options = connection(client("redis://a", {"socket_timeout": None, "health_check_interval": 0}))

    assert (options["socket_timeout"], options["health_check_interval"]) == (None, 0)


class Broken(CredentialProvider):
    def get_credentials(self) -> tuple[str]:
        raise OSError(f"cannot fetch {SECRET}")


@pytest.mark.parametrize("url", ["redis://a", "sentinel://a", "redis-cluster://a"])
def test_a_credential_provider_must_be_an_instance(url: str) -> None:
    options = SERVICE if url.startswith("sentinel") else {}

    make_client(
        config(url, redis_options={**options, "credential_provider": UsernamePasswordCredentialProvider("u", "x")})
    )

    with pytest.raises(ImproperlyConfigured, match=r"\['credential_provider'\]: expected an instance of .*, not str"):
        make_client(config(url, redis_options={**options, "credential_provider": "proj.Provider"}))


@pytest.mark.parametrize("url", [f"redis://:{SECRET}@a", f"sentinel://:{SECRET}@a", f"redis-cluster://:{SECRET}@a"])
def test_a_credential_provider_together_with_a_password_is_refused(url: str) -> None:
    options = SERVICE if url.startswith("sentinel") else {}

    with pytest.raises(ImproperlyConfigured, match="cannot be passed along with 'credential_provider'") as refused:
        make_client(config(url, redis_options={**options, "credential_provider": Broken()}))

    assert SECRET not in "".join(traceback.format_exception(refused.value))


# -- TLS


@pytest.mark.parametrize(
    ("given", "demands", "checks_name"),
    [
        pytest.param({}, ssl.CERT_REQUIRED, True, id="by-default"),
        pytest.param({"ssl_cert_reqs": ssl.CERT_REQUIRED}, ssl.CERT_REQUIRED, True, id="constant"),
        pytest.param({"ssl_cert_reqs": "required"}, ssl.CERT_REQUIRED, True, id="redis-py"),
        pytest.param({"ssl_cert_reqs": "CERT_REQUIRED"}, ssl.CERT_REQUIRED, True, id="kombu"),
        pytest.param({"ssl_cert_reqs": "CERT_OPTIONAL"}, ssl.CERT_OPTIONAL, True, id="optional"),
        pytest.param({"ssl_cert_reqs": ssl.CERT_NONE}, ssl.CERT_NONE, False, id="none-constant"),
        pytest.param({"ssl_cert_reqs": "CERT_NONE"}, ssl.CERT_NONE, False, id="none-kombu"),
        pytest.param({"ssl_cert_reqs": "none"}, ssl.CERT_NONE, False, id="none-redis-py"),
        pytest.param({"ssl_cert_reqs": None}, ssl.CERT_NONE, False, id="none"),
        pytest.param({"ssl_check_hostname": False}, ssl.CERT_REQUIRED, False, id="any-name"),
    ],
)
@pytest.mark.parametrize("where", ["redis_use_ssl", "redis_options"])
def test_the_options_decide_how_a_server_is_verified(
    where: str, given: dict[str, Any], demands: ssl.VerifyMode, checks_name: bool
) -> None:
    pool = make_client(config("rediss://a", **{where: given})).get().connection_pool

    made = pool.connection_class(**pool.connection_kwargs)

    assert (made.cert_reqs, made.check_hostname) == (demands, checks_name)


def test_the_url_may_contain_the_value_that_celery_uses() -> None:
    made = client("rediss://a?ssl_cert_reqs=CERT_OPTIONAL")

    assert connection(made)["ssl_cert_reqs"] == "optional"


def test_a_demand_that_redis_py_does_not_know_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match="sometimes"):
        client("rediss://a", {"ssl_cert_reqs": "sometimes"})


@pytest.mark.parametrize("option", ["ssl_ca_certs", "ssl_certfile", "ssl_keyfile"])
@pytest.mark.parametrize("url", ["rediss://a", "rediss-cluster://a"])
def test_a_missing_file_is_an_error_before_anything_connects(url: str, option: str, tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"{option} = .*there is no such file"):
        make_client(config(url, redis_use_ssl={option: str(tmp_path / "no.pem")}))


def test_no_repr_shows_the_password_of_a_key() -> None:
    assert SECRET not in repr(config("rediss://a", redis_use_ssl={"ssl_password": SECRET}))


def test_the_error_of_a_wrong_tls_setting_does_not_show_it() -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        config("rediss://a", redis_use_ssl=[("ssl_password", SECRET)])

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("before", "after", "where"),
    [(" ", "", "in front of"), ("", "\n", "behind"), ("\n", " ", "in front of")],
)
def test_a_blank_around_a_url_is_named(before: str, after: str, where: str) -> None:
    problem = f"^redisbeater_redis_url has a blank or an end of line {where} the URL: remove it$"
    with pytest.raises(ImproperlyConfigured, match=problem) as caught:
        RedisUrl.read("redisbeater_redis_url", f"{before}redis://:secret@localhost/0{after}")

    assert "secret" not in str(caught.value)
