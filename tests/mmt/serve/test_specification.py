"""The description of the API names what the server has."""

from mmt.serve.specification import specification
from tests.helpers.serving import request


def test_every_path_is_a_route(serve_echo):
    with serve_echo() as (port, _):
        for path, methods in specification()["paths"].items():
            for method in methods:
                status = request(port, method.upper(), path, b"").status
                assert status not in (404, 405), path
        assert request(port, "GET", "/spec").json == specification()


def test_required_parameters_are_described():
    for path, methods in specification()["paths"].items():
        for body in methods.get("post", {}).get("requestBody", {}).get("content", {}).values():
            assert set(body["schema"]["required"]) <= body["schema"]["properties"].keys(), path
