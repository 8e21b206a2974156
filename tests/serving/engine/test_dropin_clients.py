"""Other people's clients, unchanged, against the replica on loopback."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.fakes.engine import FakeEngine
from tests.serving.engine.loopback import serving

# They import for seconds and warn of their own deprecations.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
TEXT = "She go to school every days."
FIXED = "She goes to school every day."
USER = [{"role": "user", "content": TEXT}]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(FakeEngine(max_model_len_tokens=256)) as url:
        yield url


def test_openai_completes_and_chats(url: str) -> None:
    from openai import OpenAI

    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        done = client.completions.create(model="grammar", prompt=TEXT, logprobs=2, seed=1)
        assert done.choices[0].text == FIXED
        assert done.choices[0].logprobs is not None
        assert done.choices[0].logprobs.tokens == [
            "She",
            " goes",
            " to",
            " school",
            " every",
            " day.",
        ]
        chat = client.chat.completions.create(
            model="grammar", messages=USER, logprobs=True, top_logprobs=1
        )  # type: ignore[call-overload]
        assert chat.choices[0].message.content == FIXED
        assert chat.choices[0].logprobs.content[1].top_logprobs[0].token == " goes"
        assert chat.usage.total_tokens > 6
        past = [*USER, chat.choices[0].message.model_dump(), *USER]
        again = client.chat.completions.create(model="grammar", messages=past)
        assert again.choices[0].message.content == FIXED
        assert [model.id for model in client.models.list()] == ["grammar"]


def test_openai_streams(url: str) -> None:
    from openai import OpenAI

    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        with client.completions.create(model="grammar", prompt=TEXT, stream=True) as stream:
            assert "".join(chunk.choices[0].text for chunk in stream) == FIXED
        with client.chat.completions.create(
            model="grammar", messages=USER, stream=True, stream_options={"include_usage": True}
        ) as chunks:  # type: ignore[call-overload]
            seen = list(chunks)
        said = [chunk.choices[0].delta.content or "" for chunk in seen if chunk.choices]
        assert "".join(said) == FIXED
        assert seen[-1].usage.completion_tokens == 6


async def test_openai_s_async_client(url: str) -> None:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="grammar", messages=USER, stream=True, n=2, temperature=1.0
        )  # type: ignore[call-overload]
        said = {0: "", 1: ""}
        async for chunk in stream:
            said[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
        assert said == {0: FIXED, 1: FIXED}


def test_openai_raises_its_own_errors(url: str) -> None:
    import openai

    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            client.completions.create(model="grammar", prompt=TEXT, echo=True)
        assert (refused.value.code, refused.value.param) == ("unsupported_field", "echo")
        with pytest.raises(openai.NotFoundError):
            client.completions.create(model="other", prompt=TEXT)
        with pytest.raises(openai.APIStatusError) as pinned:
            client.completions.create(model="grammar", prompt=TEXT, extra_body={"version": 8})
        assert pinned.value.status_code == 412


def test_mlflow_deployments(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_HOST", url)
    monkeypatch.setenv("DATABRICKS_TOKEN", "none")
    from mlflow.deployments import get_deploy_client

    client = get_deploy_client("databricks")
    table = {"dataframe_split": {"columns": ["text"], "data": [[TEXT]]}}
    assert client.predict(endpoint="grammar", inputs=table) == {"predictions": [FIXED]}
    chat = client.predict(endpoint="grammar", inputs={"messages": USER})
    assert chat.choices[0]["message"]["content"] == FIXED
    chunks = client.predict_stream(endpoint="grammar", inputs={"messages": USER})
    said = [chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks]
    assert "".join(said) == FIXED


def test_mlflow_tells_of_an_unknown_endpoint(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_HOST", url)
    monkeypatch.setenv("DATABRICKS_TOKEN", "none")
    from mlflow.deployments import get_deploy_client

    with pytest.raises(Exception, match="endpoint_not_found"):
        get_deploy_client("databricks").predict(endpoint="other", inputs={"inputs": [TEXT]})


def test_databricks_sdk(url: str) -> None:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.errors import NotFound
    from databricks.sdk.service.serving import ChatMessage, ChatMessageRole, DataframeSplitInput

    endpoints = WorkspaceClient(host=url, token="none").serving_endpoints
    split = DataframeSplitInput(columns=["text"], data=[[TEXT]])
    for asked in (
        {"dataframe_split": split},
        {"dataframe_records": [{"text": TEXT}]},
        {"inputs": [TEXT]},
        {"instances": [TEXT], "client_request_id": "c1", "usage_context": {"team": "a"}},
    ):
        answer = endpoints.query("grammar", **asked)  # type: ignore[arg-type]
        assert answer.predictions == [FIXED]
    assert answer.served_model_name == "grammar-7"
    said = endpoints.query(
        "grammar", messages=[ChatMessage(role=ChatMessageRole.USER, content=TEXT)], max_tokens=12
    )
    assert said.choices is not None
    assert said.choices[0].message is not None
    assert said.choices[0].message.content == FIXED
    assert endpoints.query("grammar", prompt=TEXT).choices[0].text == FIXED  # type: ignore[index]
    with pytest.raises(NotFound, match="there is no serving endpoint"):
        endpoints.query("other", inputs=[TEXT])


def test_curl(url: str) -> None:
    body = json.dumps({"text": TEXT})
    done = subprocess.run(
        ["curl", "-sS", "--max-time", "10", f"{url}/v1/corrections", "-d", body],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["corrected"] == FIXED
