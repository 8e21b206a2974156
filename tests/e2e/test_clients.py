"""Clients that callers have already, against the real endpoint: each gets the same correction.

Our own is in test_our_client.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import Promoted

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1800)]
ASKED, WANTED = "She go to school every days.", "She goes to school every day."
PROMPT = f"Correct: {ASKED}\nFixed:"
CHAT: list[dict[str, str]] = [{"role": "user", "content": ASKED}]
GREEDY: dict[str, Any] = {"max_tokens": 64, "temperature": 0.0, "stop": ["\n"]}


@pytest.fixture
def url(promoted: Promoted) -> str:
    return promoted.stack.url


class TestOpenAI:
    """The `openai` SDK: `base_url` is all that changes."""

    @pytest.fixture(autouse=True)
    def _needs_it(self) -> None:
        pytest.importorskip("openai", reason="the openai package is not installed")

    @pytest.fixture
    def client(self, url: str) -> Iterator[Any]:
        import openai

        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            yield client

    def test_completion(self, client: Any) -> None:
        answer = client.completions.create(model="grammar", prompt=PROMPT, **GREEDY)
        assert answer.choices[0].text.strip() == WANTED
        assert answer.usage.completion_tokens > 0

    def test_completion_streamed(self, client: Any) -> None:
        options = {"stream": True, "stream_options": {"include_usage": True}}
        with client.completions.create(
            model="grammar", prompt=PROMPT, **GREEDY, **options
        ) as stream:
            chunks = list(stream)
        assert "".join(c.text for chunk in chunks for c in chunk.choices).strip() == WANTED
        assert chunks[-1].usage.completion_tokens > 0

    def test_chat(self, client: Any) -> None:
        answer = client.chat.completions.create(model="grammar", messages=CHAT, temperature=0.0)
        assert answer.choices[0].message.role == "assistant"
        assert answer.choices[0].message.content.strip() == WANTED

    def test_chat_streamed(self, client: Any) -> None:
        with client.chat.completions.create(
            model="grammar", messages=CHAT, temperature=0.0, stream=True
        ) as stream:
            parts = [c.delta.content or "" for chunk in stream for c in chunk.choices]
        assert "".join(parts).strip() == WANTED

    async def test_asyncio(self, url: str) -> None:
        import openai

        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
            whole, chat, stream = await asyncio.gather(
                client.completions.create(model="grammar", prompt=PROMPT, **GREEDY),
                client.chat.completions.create(model="grammar", messages=CHAT, temperature=0.0),  # type: ignore[arg-type]
                client.completions.create(model="grammar", prompt=PROMPT, **GREEDY, stream=True),
            )
            async with stream:
                streamed = "".join([chunk.choices[0].text async for chunk in stream])
        assert whole.choices[0].text.strip() == WANTED
        assert (chat.choices[0].message.content or "").strip() == WANTED
        assert streamed.strip() == WANTED

    def test_models(self, client: Any) -> None:
        assert [model.id for model in client.models.list()] == ["grammar"]

    def test_refusals_are_its_own_errors(self, client: Any) -> None:
        import openai

        with pytest.raises(openai.NotFoundError) as missing:
            client.completions.create(model="nonesuch", prompt=PROMPT)
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError) as wrong:
            client.completions.create(model="grammar", prompt=PROMPT, temperature=99.0)
        assert wrong.value.param == "temperature"

    def test_a_missed_deadline_is_a_status_error(self, client: Any) -> None:
        import openai

        headers = {"x-request-timeout-ms": "0"}
        with pytest.raises(openai.APIStatusError) as late:
            client.completions.create(
                model="grammar", prompt=PROMPT, **GREEDY, extra_headers=headers
            )
        assert late.value.status_code in (408, 504)  # the replica's word, or the edge's before it


class TestMLflow:
    """`mlflow.deployments`: its Databricks client, with the host pointed at the edge."""

    @pytest.fixture
    def client(self, url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
        deployments = pytest.importorskip(
            "mlflow.deployments", reason="the mlflow package is not installed"
        )
        monkeypatch.setenv("DATABRICKS_HOST", url)
        monkeypatch.setenv("DATABRICKS_TOKEN", "none")
        monkeypatch.setenv("DATABRICKS_CONFIG_FILE", "/dev/null")
        return deployments.get_deploy_client("databricks")

    @pytest.mark.parametrize(
        "inputs",
        [
            {"inputs": [ASKED]},
            {"instances": [{"text": ASKED}]},
            {"dataframe_records": [{"text": ASKED}]},
            {"dataframe_split": {"columns": ["text"], "data": [[ASKED]]}},
        ],
        ids=lambda inputs: next(iter(inputs)),
    )
    def test_prediction(self, client: Any, inputs: dict[str, Any]) -> None:
        answer = client.predict(endpoint="grammar", inputs=inputs)
        assert answer["predictions"] == [WANTED]

    def test_chat(self, client: Any) -> None:
        answer = client.predict(endpoint="grammar", inputs={"messages": CHAT, "temperature": 0.0})
        assert answer["choices"][0]["message"]["content"].strip() == WANTED

    def test_chat_streamed(self, client: Any) -> None:
        inputs = {"messages": CHAT, "temperature": 0.0}
        chunks = list(client.predict_stream(endpoint="grammar", inputs=inputs))
        parts = [c["delta"].get("content") or "" for chunk in chunks for c in chunk["choices"]]
        assert "".join(parts).strip() == WANTED

    def test_an_endpoint_that_is_not_there(self, client: Any) -> None:
        requests = pytest.importorskip("requests")
        with pytest.raises(requests.exceptions.HTTPError, match="endpoint_not_found"):
            client.predict(endpoint="nonesuch", inputs={"inputs": [ASKED]})

    def test_scoring_protocol(self, url: str) -> None:
        """What `mlflow models serve` would answer at /invocations."""
        requests = pytest.importorskip("requests")
        answer = requests.post(f"{url}/invocations", json={"inputs": [ASKED, ASKED]}, timeout=60)
        assert answer.json() == {"predictions": [WANTED, WANTED]}


class TestDatabricks:
    """`databricks-sdk`: `serving_endpoints.query`, with the host pointed at the edge."""

    @pytest.fixture
    def endpoints(self, url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
        sdk = pytest.importorskip(
            "databricks.sdk", reason="the databricks-sdk package is not installed"
        )
        monkeypatch.setenv("DATABRICKS_CONFIG_FILE", "/dev/null")
        client = sdk.WorkspaceClient(host=url, token="none", auth_type="pat")
        return client.serving_endpoints

    @pytest.mark.parametrize(
        "query",
        [
            {"inputs": [ASKED]},
            {"instances": [{"text": ASKED}]},
            {"dataframe_records": [{"text": ASKED}]},
        ],
        ids=lambda query: next(iter(query)),
    )
    def test_query(self, endpoints: Any, query: dict[str, Any]) -> None:
        assert endpoints.query("grammar", **query).predictions == [WANTED]

    def test_query_by_chat(self, endpoints: Any) -> None:
        from databricks.sdk.service.serving import ChatMessage, ChatMessageRole

        message = ChatMessage(role=ChatMessageRole.USER, content=ASKED)
        answer = endpoints.query("grammar", messages=[message], temperature=0.0)
        assert answer.choices[0].message.content.strip() == WANTED

    def test_query_by_prompt(self, endpoints: Any) -> None:
        answer = endpoints.query("grammar", prompt=PROMPT, **GREEDY)
        assert answer.choices[0].text.strip() == WANTED

    def test_an_endpoint_that_is_not_there(self, endpoints: Any) -> None:
        from databricks.sdk.errors import NotFound as Missing

        with pytest.raises(Missing):
            endpoints.query("nonesuch", inputs=[ASKED])


class TestCurl:
    """No client at all."""

    @pytest.fixture(autouse=True)
    def _needs_it(self) -> None:
        if shutil.which("curl") is None:
            pytest.skip("curl is not installed")

    def curl(self, *args: str) -> str:
        done = subprocess.run(
            ["curl", "--silent", "--show-error", "--max-time", "60", *args],
            capture_output=True, text=True, check=True, timeout=90,
        )  # fmt: skip
        return done.stdout

    def test_correction_as_documented(self, url: str) -> None:
        answer = json.loads(self.curl(f"{url}/v1/corrections", "-d", json.dumps({"text": ASKED})))
        assert answer["corrected"] == WANTED

    def test_stream(self, url: str) -> None:
        body = {"model": "grammar", "prompt": PROMPT, "stream": True, **GREEDY}
        out = self.curl("--no-buffer", f"{url}/v1/completions", "-d", json.dumps(body))
        events = [line.removeprefix("data: ") for line in out.splitlines() if line]
        assert events[-1] == "[DONE]"
        texts = [c["text"] for event in events[:-1] for c in json.loads(event)["choices"]]
        assert "".join(texts).strip() == WANTED

    def test_refusal_has_a_status_and_a_reason(self, url: str) -> None:
        out = self.curl("-w", "\n%{http_code}", f"{url}/v1/corrections", "-d", '{"text": ""}')
        body, _, status = out.rpartition("\n")
        assert status == "400"
        assert json.loads(body)["error"]["code"] == "empty_text"
