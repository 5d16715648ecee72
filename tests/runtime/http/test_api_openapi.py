"""The description that a site serves: valid, complete, and true."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.client.places import cluster, short_dir
from tests.runtime.http.api_site import api_site, with_api
from tests.runtime.http.fake_engine import FakeEngine

from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.structured_logging import logger
from reconvene.runtime.http.api import documents
from reconvene.runtime.http.api.openapi import describe
from reconvene.runtime.http.api.operations import API, BESIDE, Operation
from reconvene.runtime.http.server import HttpServer
from reconvene.runtime.node.explain import explain

METHODS = ("get", "post")


def problems(document: dict[str, Any]) -> Iterator[str]:
    """What OpenAPI 3.1 asks for, as far as this description uses it."""
    if not re.fullmatch(r"3\.1\.\d+", document.get("openapi", "")):
        yield "openapi: expected 3.1"
    if not {"title", "version"} <= document.get("info", {}).keys():
        yield "info: expected title and version"
    ids: set[str] = set()
    for path, item in document["paths"].items():
        if not path.startswith("/"):
            yield f"{path}: expected a leading /"
        for method, operation in item.items():
            where = f"{method} {path}"
            if method not in METHODS:
                yield f"{where}: no such method"
            if operation["operationId"] in ids:
                yield f"{where}: its operationId is another one's"
            ids.add(operation["operationId"])
            in_path = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
            if in_path != set(re.findall(r"{(\w+)}", path)):
                yield f"{where}: the parameters in the path are {in_path}"
            yield from _parameters(where, operation.get("parameters", []))
            yield from _responses(where, operation.get("responses", {}))
    for place, target in _references(document, ""):
        if _find(document, target) is None:
            yield f"{place}: {target} is not there"


def _parameters(where: str, parameters: list[dict[str, Any]]) -> Iterator[str]:
    for one in parameters:
        if one["in"] not in ("query", "path", "header") or "schema" not in one:
            yield f"{where}: parameter {one['name']}: expected a place and a schema"
        if one["in"] == "path" and one.get("required") is not True:
            yield f"{where}: parameter {one['name']}: it is in the path, so it is required"
    if len({(one["in"], one["name"]) for one in parameters}) < len(parameters):
        yield f"{where}: a parameter twice"


def _responses(where: str, responses: dict[str, Any]) -> Iterator[str]:
    if not responses:
        yield f"{where}: no responses"
    for status, response in responses.items():
        if not re.fullmatch(r"[1-5]\d\d", status) or not response.get("description"):
            yield f"{where}: {status}: expected a status and a description"


def _references(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "$ref":
                yield place, inner
            else:
                yield from _references(inner, f"{place}/{name}")
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _references(inner, f"{place}/{at}")


def _find(document: Any, reference: str) -> Any:
    for part in reference.removeprefix("#/").split("/"):
        document = document.get(part) if isinstance(document, dict) else None
    return document


def served(config: Config) -> set[tuple[str, str]]:
    """(method, path) of all routes of a server, but for the dashboard's."""

    async def routes() -> set[tuple[str, str]]:
        server = HttpServer(config, FakeEngine(), logger("test"))
        await server.start()
        try:
            assert server._runner is not None
            app = server._runner.app
            assert isinstance(app, web.Application)
            return {
                (route.method.lower(), route.resource.canonical)
                for route in app.router.routes()
                if route.resource is not None and route.method != "HEAD"
            }
        finally:
            await server.stop()

    found = asyncio.run(routes())
    return {(method, path) for method, path in found if path != "/" and not path.startswith("/dashboard/")}


def test_it_is_valid() -> None:
    for operations in ((*BESIDE, *API), BESIDE):
        for has_keys in (False, True):
            document = json.loads(msgspec.json.encode(describe(operations, "1.0", has_keys)))
            assert list(problems(document)) == []
            assert ("security" in document) is has_keys


@pytest.mark.parametrize("api", [False, True])
def test_every_route_is_described_and_every_description_is_a_route(api: bool) -> None:
    with short_dir() as directory:
        config = with_api(cluster(directory)[0], api=api)
        document = describe((*BESIDE, *API) if api else BESIDE, "1.0", False)
        described = {(method, path) for path, item in document["paths"].items() for method in item}
        assert described == served(config)


def test_the_check_of_routes_can_fail() -> None:
    with short_dir() as directory:
        document = describe((*BESIDE, *API[1:]), "1.0", False)
        described = {(method, path) for path, item in document["paths"].items() for method in item}
        assert served(with_api(cluster(directory)[0])) - described == {("post", "/v1/log")}


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda found: found.update(openapi="2.0"), "openapi: expected 3.1"),
        (lambda found: found["components"]["schemas"].pop("LogPage"), "LogPage is not there"),
        (lambda found: found["paths"]["/v1/log"]["post"]["responses"].clear(), "post /v1/log: no responses"),
        (lambda found: found["paths"]["/v1/log/entries/{position}"]["get"].pop("parameters"), "in the path are"),
        (lambda found: found["paths"]["/status"]["get"].update(operationId="read"), "another one's"),
    ],
)
def test_the_check_of_the_document_can_fail(spoil: Any, problem: str) -> None:
    document = json.loads(msgspec.json.encode(describe((*BESIDE, *API), "1.0", False)))
    spoil(document)
    assert any(problem in one for one in problems(document))


def test_answers_are_as_described() -> None:
    """Each answer of a real site has exactly the fields of its struct."""

    async def case() -> None:
        with short_dir() as directory:
            async with api_site(directory) as api:
                await api.append(b"text", "?wait=ordered")
                await api.append(b"\xff", "?wait=ordered")
                document = (await api.get("/openapi.json")).json
                assert list(problems(document)) == []
                for path, kind in (
                    ("/v1/log", documents.LogPage),
                    ("/v1/log/pending", documents.LogPending),
                    ("/v1/log/health", documents.LogHealth),
                    ("/v1/log?start=x", documents.Failure),
                ):
                    said = (await api.get(path)).json
                    fields = document["components"]["schemas"][kind.__name__]["properties"]
                    assert said.keys() <= fields.keys()
                    assert msgspec.to_builtins(msgspec.convert(said, kind)) == said
                said = (await api.append(b"x")).json
                assert msgspec.to_builtins(msgspec.convert(said, documents.LogReceipt)) == said

    asyncio.run(asyncio.wait_for(case(), 30))


def test_every_operation_of_the_api_has_a_role() -> None:
    def needs(operation: Operation) -> str:
        return "" if operation.role is None else operation.role.label

    assert {operation.name: needs(operation) for operation in API} == {
        "append": "append", "read": "read", "entry": "read", "follow": "read", "pending": "read",
        "log_status": "read", "log_health": "read", "send": "append", "listen": "read",
    }  # fmt: skip


def test_node_check_says_who_may_use_it() -> None:
    with short_dir() as directory:
        config = with_api(cluster(directory)[0], followers=64)
        found = explain(config)
        assert found.listens["api"].endswith("/v1/")
        assert [line for line in found.warnings if line.startswith("http.")] == [
            "http.api: without http.keys every user of this machine can read the log and append to it",
            "http.followers: 64 streams need more connections than http.connections, 64, allows",
        ]
        assert "api" not in explain(with_api(cluster(directory)[0], api=False)).listens
