"""A suite as an lm-eval task, a model as lm-eval's LM. The only import of lm-eval.

lm-eval keeps the loop, the requests and the filters; the model answers all inputs at once, and what
the journal holds already is not asked again. lm-eval's own statistics are switched off: they are
unpaired, and gates are paired.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals import errors, scoring
from evals.journal import Journal, Key
from evals.model import Answer, Ask, Model
from evals.outcome import Outcome, Outcomes
from evals.progress import Progress
from evals.results import Evaluated
from evals.suite import Example, Suite
from registry.manifest import Prompt


def load() -> None:
    """Imports lm-eval, which takes seconds that no suite should be charged with."""
    import datasets  # noqa: F401
    import lm_eval.tasks  # noqa: F401


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """One model, ready for any number of suites."""

    model: Model
    prompt: Prompt
    checkpoint_digest: str
    runtime_digest: str

    def check(self, chosen: Suite) -> None:
        """Raises EvaluationFailed where the settings leave an example too little room; says which.

        What the model itself has no room for is no fault of the settings: it is missing later.
        """
        ask, parts = scoring.ask_of(chosen.kind), scoring.parts_of(chosen.kind)
        try:
            self.model.check(ask, self._inputs(chosen))
        except errors.ContextTooShort as exc:
            example = chosen.examples[exc.number // parts]
            raise errors.EvaluationFailed(
                f"suite {chosen.name}, example {example.id!r}: {exc}"
            ) from exc

    def evaluate(self, chosen: Suite, journal: Journal, progress: Progress) -> Evaluated:
        """Outcomes of every example, in suite order. `journal` is open.

        Raises:
            EvaluationFailed: the model could not answer.
        """
        start = time.monotonic()
        before = set(journal.answers)
        outcomes = _run_lm_eval(self, chosen, journal, progress)
        made = [answer for key, answer in journal.answers.items() if key not in before]
        return Evaluated(
            suite=chosen,
            outcomes=Outcomes(
                suite=chosen.name,
                suite_digest=chosen.digest,
                checkpoint_digest=self.checkpoint_digest,
                runtime_digest=self.runtime_digest,
                outcomes=tuple(outcomes[example.id] for example in chosen.examples),
            ),
            was_kept=False,
            wall_s=time.monotonic() - start,
            prompt_tokens=sum(answer.prompt_tokens for answer in made),
            output_tokens=sum(answer.output_tokens for answer in made),
        )

    def _inputs(self, chosen: Suite) -> list[str]:
        if scoring.ask_of(chosen.kind) is Ask.LIKELIHOOD:
            return [text for one in chosen.examples for text in (one.source, one.contrast)]
        return [self.prompt.render(one.source) for one in chosen.examples]


def _run_lm_eval(
    evaluator: Evaluator, chosen: Suite, journal: Journal, progress: Progress
) -> dict[str, Outcome]:
    """Outcomes by example id.

    `evaluate`, not `simple_evaluate`: that one is the same loop after options not used here, and
    then lists every installed package in child processes, 1.6 s for each suite. Its log of samples
    is off too: the journal is one.
    """
    import lm_eval
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks import TaskManager

    outcomes: dict[str, Outcome] = {}
    config = task_config(chosen, evaluator.prompt, journal, outcomes)
    lm_eval.evaluate(
        lm=_language_model(evaluator.model, journal, progress),
        task_dict=TaskManager(include_defaults=False).load([ConfigurableTask(config=config)]),
        bootstrap_iters=0,
        log_samples=False,
    )
    return outcomes


def task_config(
    chosen: Suite, prompt: Prompt, journal: Journal, outcomes: dict[str, Outcome]
) -> dict[str, Any]:
    """The suite as an lm-eval task, in memory; the task leaves its results in `outcomes`.

    A sample without an answer has the score None, and lm-eval's mean leaves it out.
    """
    examples = {example.id: example for example in chosen.examples}
    parts = range(scoring.parts_of(chosen.kind))

    def process_results(doc: dict[str, Any], results: list[Any]) -> dict[str, float | None]:
        example = examples[doc["id"]]
        answers = [journal.answers[Key(example.id, part)] for part in parts]
        if scoring.ask_of(chosen.kind) is Ask.LIKELIHOOD:
            outcome = scoring.compared(chosen, example, answers)
        else:
            outcome = scoring.written(chosen, example, answers[0], results[0])
        outcomes[example.id] = outcome
        return {"score": outcome.score}

    return {
        "task": chosen.name,
        "custom_dataset": lambda **_: {"test": _dataset(chosen.examples)},
        "test_split": "test",
        "process_results": process_results,
        "num_fewshot": 0,
        "metric_list": [{"metric": "score", "aggregation": mean, "higher_is_better": True}],
        **(_PAIRS if scoring.ask_of(chosen.kind) is Ask.LIKELIHOOD else _texts(prompt)),
    }


_PAIRS: Mapping[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_text": lambda doc: "",
    "doc_to_choice": lambda doc: [doc["source"], doc["contrast"]],
    "doc_to_target": lambda doc: 0,
    "target_delimiter": "",
}


def _texts(prompt: Prompt) -> dict[str, Any]:
    def parse(responses: list[list[str]], docs: object) -> list[list[str]]:
        return [[prompt.parse(text) for text in row] for row in responses]

    return {
        "output_type": "generate_until",
        "doc_to_text": lambda doc: prompt.render(doc["source"]),
        "doc_to_target": lambda doc: doc["target"],
        # The engine takes these from the manifest; lm-eval insists on having some.
        "generation_kwargs": {"until": [], "do_sample": False},
        "filter_list": [
            {
                "name": "parsed",
                "filter": [{"function": "custom", "filter_fn": parse}, {"function": "take_first"}],
            }
        ],
    }


def mean(scores: Sequence[float | None]) -> float:
    """Mean of the scores that are there; NaN when none is."""
    present = [score for score in scores if score is not None]
    return sum(present) / len(present) if present else float("nan")


def _dataset(examples: Sequence[Example]) -> Any:
    import datasets

    return datasets.Dataset.from_list(
        [
            {
                "id": one.id,
                "source": one.source,
                "contrast": one.contrast,
                "target": one.references[0] if one.references else "",
            }
            for one in examples
        ]
    )


def _language_model(model: Model, journal: Journal, progress: Progress) -> Any:
    """The model as lm-eval's LM. Made in a function because its base class is heavy to import."""
    from lm_eval.api.model import LM

    def ask_for(ask: Ask, requests: list[Any], inputs: list[str]) -> list[Key]:
        """Asks for what the journal does not have; the keys of all requests, in their order."""
        keys = [Key(request.doc["id"], request.idx) for request in requests]
        todo = [number for number, key in enumerate(keys) if key not in journal.answers]
        parts = 1 + max(request.idx for request in requests)
        progress.begin(total=len(keys), done=len(keys) - len(todo), parts=parts)

        def on_answer(position: int, answer: Answer) -> None:
            journal.add(keys[todo[position]], answer)
            progress.step()

        model.answer(ask, [inputs[number] for number in todo], on_answer)
        return keys

    class ModelLM(LM):  # type: ignore[misc]  # lm-eval has no types
        def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
            keys = ask_for(Ask.TEXT, requests, [request.args[0] for request in requests])
            return [journal.answers[key].text for key in keys]

        def loglikelihood(
            self, requests: list[Any], disable_tqdm: bool = False
        ) -> list[tuple[float, bool]]:
            keys = ask_for(Ask.LIKELIHOOD, requests, [request.args[1] for request in requests])
            found = (journal.answers[key].logprob for key in keys)
            # Whether it is also what greedy decoding would write is not asked by any suite.
            return [(float("nan") if one is None else one, False) for one in found]

        def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
            raise NotImplementedError("no suite asks for the perplexity of documents")

    return ModelLM()
