"""One vLLM engine core for several processes of ours: launched here, attached to in each of them.

The one idea is vLLM's own seam: the core is given the addresses of all its clients when it starts,
connects to each and greets it once. The listening sockets of those addresses are made here and
inherited by the front ends, so a greeting waits in its socket until somebody takes the seat. That
is what makes spare seats possible: a front end that died is replaced on a seat nobody has had yet,
where one that took the old seat would wait in vain to be greeted.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from registry.engine_settings import DeviceKind, EngineSettings
from serving.engine.core import Seat
from serving.engine.vllm_engine import VllmEngine, why_not_started
from serving.errors import DeploymentFailed

if TYPE_CHECKING:
    from vllm import AsyncEngineArgs
    from vllm.v1.engine.utils import CoreEngineLaunch, EngineZmqListeners

SPARE_SEATS = 4
"""Front ends that may die before the replica is replaced. Each costs the core two sockets."""
_ATTACH = "serving.engine.vllm_core:attach"
_STOP_S = 5.0
_MULTIPROCESSING = "VLLM_ENABLE_V1_MULTIPROCESSING"
_FAILURES = (ValueError, RuntimeError, MemoryError, OSError, KeyError)


class VllmCore:
    """A launched core and the seats at it."""

    def __init__(
        self,
        launch: CoreEngineLaunch,
        loaded: contextlib.ExitStack,
        listeners: EngineZmqListeners,
        seats: list[Seat],
        checkpoint_dir: str,
    ) -> None:
        self._manager = launch.engine_manager
        self._loaded = loaded
        self._listeners = [listeners]  # vLLM's object, whose end closes what it holds
        self._seats = seats
        self._checkpoint_dir = checkpoint_dir

    @property
    def pid(self) -> int:
        """See `EngineCore`."""
        return int(self._manager.processes[0].pid)

    def seat(self) -> Seat | None:
        """See `EngineCore`."""
        return self._seats.pop(0) if self._seats else None

    def given(self, seat: Seat) -> None:
        """Closes our copies, so that the core notices when the front end is gone."""
        (held,) = self._listeners
        for listener in (*held.inputs, *held.outputs):
            if listener.socket.fileno() in seat.fds:
                listener.close()

    def wait_until_loaded(self) -> None:
        """See `EngineCore`."""
        try:
            self._loaded.close()
        except _FAILURES as exc:
            raise DeploymentFailed(why_not_started(exc, self._checkpoint_dir)) from exc

    def shutdown(self) -> None:
        """See `EngineCore`."""
        self._manager.shutdown(timeout=_STOP_S)
        self._seats.clear()
        while self._listeners:
            self._listeners.pop().cleanup()


def launch(checkpoint_dir: str, settings: EngineSettings, front_ends: int) -> VllmCore:
    """Starts the core's process; a `CoreFactory`. The model loads for 20-30 s after it returns.

    Raises:
        DeploymentFailed: vLLM refused the checkpoint or the settings.
    """
    _prepare_environment()
    from vllm.v1.engine.utils import bind_engine_zmq_listeners, launch_core_engines
    from vllm.v1.executor import Executor

    seats = front_ends + SPARE_SEATS
    stack = contextlib.ExitStack()
    try:
        with _worker_in_core(settings):
            config = _engine_args(checkpoint_dir, settings, seats, -1).create_engine_config()
        listeners = bind_engine_zmq_listeners(config, seats)
        launched = stack.enter_context(
            launch_core_engines(config, Executor.get_class(config), False, listeners.addresses)
        )
    except _FAILURES as exc:
        raise DeploymentFailed(why_not_started(exc, checkpoint_dir)) from exc
    places = [
        Seat(
            attach=_ATTACH,
            arguments={
                "checkpoint_dir": checkpoint_dir, "settings": settings.to_dict(),
                "index": index, "seats": seats,
                "input_address": given.address, "output_address": taken.address,
            },
            fds=(given.socket.fileno(), taken.socket.fileno()),
        )
        for index, (given, taken) in enumerate(
            zip(listeners.inputs, listeners.outputs, strict=True)
        )
    ]  # fmt: skip
    return VllmCore(launched, stack, listeners, places, checkpoint_dir)


def attach(arguments: dict[str, Any], fds: Sequence[int]) -> VllmEngine:
    """Takes a seat; an `Attach`. Blocks until the core has loaded.

    Raises:
        DeploymentFailed: the core did not greet this seat in time.
    """
    _prepare_environment()
    from vllm.v1.engine.async_llm import AsyncLLM

    plain = dict(arguments["settings"])
    settings = EngineSettings(**{**plain, "device": DeviceKind(plain["device"])})
    directory, index, seats = (arguments[k] for k in ("checkpoint_dir", "index", "seats"))
    try:
        llm = AsyncLLM.from_vllm_config(
            _engine_args(directory, settings, seats, index).create_engine_config(),
            disable_log_stats=True,
            client_addresses={
                "input_address": arguments["input_address"],
                "output_address": arguments["output_address"],
                "input_listener": socket.socket(fileno=fds[0]),
                "output_listener": socket.socket(fileno=fds[1]),
            },
            client_count=seats,
            client_index=index,
        )
    except _FAILURES as exc:
        raise DeploymentFailed(why_not_started(exc, directory)) from exc
    return VllmEngine(llm)


def _engine_args(
    checkpoint_dir: str, settings: EngineSettings, clients: int, index: int
) -> AsyncEngineArgs:
    from vllm import AsyncEngineArgs

    args = AsyncEngineArgs(**settings.engine_kwargs(checkpoint_dir))
    args._api_process_count = clients
    args._api_process_rank = index
    return args


@contextlib.contextmanager
def _worker_in_core(settings: EngineSettings) -> Iterator[None]:
    """Lets a CPU engine run its worker in the core's own process, as evaluation does.

    vLLM gives it a process of its own, for the sake of thread binding that we turn off. That worker
    polls shared memory without rest for a second after each step (`SpinCondition` in vLLM's
    `shm_broadcast`), so one that is asked once a second takes a whole core.
    """
    if settings.device is not DeviceKind.CPU:
        yield
        return
    before = os.environ.get(_MULTIPROCESSING)
    os.environ[_MULTIPROCESSING] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_MULTIPROCESSING]
        else:
            os.environ[_MULTIPROCESSING] = before


def _prepare_environment() -> None:
    """vLLM takes some settings only from the environment of the process it is imported into."""
    os.environ.pop("VLLM_CPU_KVCACHE_SPACE", None)  # it would override the settings' cache size
    # One node may hold several replicas; pinned to the same cores they would starve each other.
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    # A fork would hold every socket of ours, and threads of ours at an arbitrary place.
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
