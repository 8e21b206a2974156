"""Keys and TLS as the pods come to them: real commands and a real Envoy over mounted files."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from serving.discovery import sources
from serving.edge import config, settings_file
from serving.edge.process import envoy_binary
from serving.keys.record import MAX_NAME_CHARS
from serving.keys.scopes import Scope
from serving.keys.store import Issued, KeyStore, Terms
from tests.conftest import free_port
from tests.deploy.manifests import (
    OVERLAYS,
    REPOSITORY,
    container,
    containers,
    mounts,
    objects,
    of_kind,
    template,
)
from tests.deploy.pod_files import PodFiles
from tests.serving.edge import certificates, upstream

both = pytest.mark.parametrize("overlay", OVERLAYS)
TERMS = Terms(name="web", scopes=(Scope.CALL,), rate_rps=800, lifetime_s=3600)


class Operator:
    """Who issues keys and certificates: a folder on a machine outside the cluster."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.store = KeyStore(folder / "keys")
        self.authority = certificates.Authority(folder)
        self.serial = 0
        self._trusted_too: list[object] = []

    def issue(self) -> Issued:
        return self.store.issue(TERMS, time.time())

    def renew(self) -> None:
        self.serial = self.authority.issue(self._folder / "tls.crt", self._folder / "tls.key")

    def new_signing_key(self) -> None:
        """What docs/kubernetes.md says to do; keys that the old one signed go on being taken."""
        keys = self._folder / "keys"
        (keys / "signing-key.pem").rename(self._folder / "old.pem")
        self._trusted_too += json.loads((keys / "jwks.json").read_text())["keys"]
        (keys / "jwks.json").unlink()
        made = ("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
        (keys / "signing-key.pem").write_bytes(subprocess.check_output(made))

    def secrets(self) -> dict[str, dict[str, bytes]]:
        """What the operator's `kubectl create secret` puts into the cluster."""
        keys = self._read("keys/keys.json", "keys/jwks.json")
        public = [*self._trusted_too, *json.loads(keys["jwks.json"])["keys"]]
        keys["jwks.json"] = json.dumps({"keys": public}).encode()
        return {"liftlock-keys": keys, "edge-tls": self._read("tls.crt", "tls.key")}

    def _read(self, *names: str) -> dict[str, bytes]:
        return {Path(name).name: (self._folder / name).read_bytes() for name in names}


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    return Operator(tmp_path / "operator")


def settings(overlay: str, tmp_path: Path) -> config.EdgeSettings:
    file = tmp_path / "edge.yaml"
    (text,) = (
        found["data"]["edge.yaml"] for name, found in of_kind(overlay, "ConfigMap").items()
        if name.startswith("edge-settings-")
    )  # fmt: skip
    file.write_text(text)
    return settings_file.load(file)


def write_bootstrap(overlay: str, files: PodFiles, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the pod's init container; later options win."""
    (init,) = template(overlay, "edge")["spec"]["initContainers"]
    return subprocess.run(
        [sys.executable, *init["command"][1:], *files.words(init), *more],
        cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def envoy(overlay: str, files: PodFiles) -> list[str]:
    """The command of the pod's container, with one thread."""
    words = files.words(container(overlay, "edge"))
    words[words.index("--concurrency") + 1] = "1"
    return [str(envoy_binary()), *words]


# What is written


def test_production_asks_for_keys_over_tls_and_trusts_no_default(tmp_path: Path) -> None:
    found = settings("h100", tmp_path)
    assert found.keys.required
    assert found.tls is not None
    assert found.edges == of_kind("h100", "HorizontalPodAutoscaler")["edge"]["spec"]["minReplicas"]
    (port,) = of_kind("h100", "Service")["edge"]["spec"]["ports"]
    assert (port["name"], port["port"]) == ("https", 443)
    (init,) = template("h100", "edge")["spec"]["initContainers"]
    assert {e["name"]: e.get("value") for e in init["env"]}["URL"].startswith("https://")
    for component in ("edge", "discovery"):
        for volume in template("h100", component)["spec"]["volumes"]:
            assert not volume.get("secret", {}).get("optional"), "without it the pod must wait"


@both
def test_the_probe_asks_as_callers_do(overlay: str, tmp_path: Path) -> None:
    asked = container(overlay, "edge")["readinessProbe"]["httpGet"]
    secure = settings(overlay, tmp_path).tls is not None
    assert asked == {"path": "/edge/healthz", "port": "callers"} | (
        {"scheme": "HTTPS"} if secure else {}
    )


def test_the_settings_name_what_is_mounted(tmp_path: Path) -> None:
    found = settings("h100", tmp_path)
    assert found.tls is not None
    assert found.tls.certificate.parent == found.tls.key.parent
    wanted = {
        "edge-tls": (str(found.tls.key.parent), {"bootstrap", "envoy"}),
        "liftlock-keys": (str(found.keys.folder), {"bootstrap", "discovery"}),
    }
    for secret, (folder, who) in wanted.items():
        seen = {
            each["name"]
            for component in ("edge", "discovery")
            for each in containers(template("h100", component))
            for path, volume in mounts(template("h100", component), each).items()
            if (path, volume.get("secret", {}).get("secretName")) == (folder, secret)
        }
        assert seen == who, secret


@both
def test_edges_and_discovery_have_one_text_of_settings(overlay: str) -> None:
    names = {
        volume["configMap"]["name"]
        for component in ("edge", "discovery")
        for volume in template(overlay, component)["spec"]["volumes"]
        if volume["name"] == "settings"
    }
    assert len(names) == 1
    assert names <= of_kind(overlay, "ConfigMap").keys()


@both
def test_secrets_are_mounted_whole_for_no_other_user_and_written_nowhere(overlay: str) -> None:
    for component in ("edge", "discovery"):
        found = template(overlay, component)
        for each in containers(found):
            assert not any("subPath" in m for m in each["volumeMounts"]), "never renewed"
        for volume in found["spec"]["volumes"]:
            assert volume.get("secret", {}).get("defaultMode", 0o440) == 0o440
        user = found["spec"]["securityContext"]
        assert user["fsGroup"] == user["runAsGroup"], "who reads them"
    assert not of_kind(overlay, "Secret")
    texts = [json.dumps(objects(overlay))]
    texts += [p.read_text() for p in (REPOSITORY / "deploy").rglob("*") if p.is_file()]
    for text in texts:
        assert "PRIVATE KEY" not in text
        assert '"kty"' not in text
        assert "BEGIN CERTIFICATE" not in text


# What runs


@both
def test_envoy_takes_what_is_written_as_the_pod_starts(
    overlay: str, tmp_path: Path, operator: Operator
) -> None:
    operator.issue()
    operator.renew()
    files = PodFiles(overlay, "edge", tmp_path)
    files.fill(operator.secrets() if overlay == "h100" else {})
    done = write_bootstrap(overlay, files)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    written = Path(files.here("/run/liftlock/bootstrap.json")).read_text()
    node = json.loads(written)["node"]
    assert (node["id"], node["locality"]) == ("edge-1", {"zone": "zone-a"})
    assert "PRIVATE" not in written
    assert ("jwt_authn" in written, "DownstreamTls" in written) == ((overlay == "h100"),) * 2
    checked = subprocess.run(
        [*envoy(overlay, files), "--mode", "validate"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stderr[-2000:]


@pytest.mark.parametrize("fault", ["no keys", "another certificate"])
def test_a_pod_that_would_answer_nobody_says_why_and_does_not_start(
    fault: str, tmp_path: Path, operator: Operator
) -> None:
    operator.issue()
    operator.renew()
    secrets = operator.secrets()
    operator.renew()
    if fault == "no keys":
        secrets["liftlock-keys"]["jwks.json"] = b""
    else:
        secrets["edge-tls"]["tls.crt"] = operator.secrets()["edge-tls"]["tls.crt"]
    files = PodFiles("h100", "edge", tmp_path)
    files.fill(secrets)
    done = write_bootstrap("h100", files)
    assert done.returncode == 1
    assert ("jwks.json" if fault == "no keys" else "cannot be used") in done.stderr
    assert not Path(files.here("/run/liftlock/bootstrap.json")).exists()


@contextlib.asynccontextmanager
async def running(*command: str) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=REPOSITORY, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield
        assert process.returncode is None, command
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class Fleet:
    """One pod of edges and one of discovery, on this machine's ports."""

    def __init__(self, folder: Path, operator: Operator) -> None:
        self.operator = operator
        self.port, self.xds = free_port(), f"127.0.0.1:{free_port()}"
        self.edge = PodFiles("h100", "edge", folder)
        self.discovery = PodFiles("h100", "discovery", folder)
        self.endpoints = folder / "endpoints.json"
        self.refresh()

    def refresh(self) -> None:
        """As the kubelets do once a minute."""
        for files in (self.edge, self.discovery):
            files.fill(self.operator.secrets())

    @contextlib.asynccontextmanager
    async def serving(
        self, replica: upstream.Upstream, scheme: str = "https"
    ) -> AsyncIterator[httpx.AsyncClient]:
        listed = {"endpoints": [sources.endpoint_to_json(replica.endpoint())]}
        self.endpoints.write_text(json.dumps(listed))
        done = write_bootstrap(
            "h100", self.edge, f"--discovery={self.xds}", f"--port={self.port}",
            f"--admin-port={free_port()}", f"--metrics-port={free_port()}",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        asked = container("h100", "discovery")
        words = self.discovery.words(asked)
        source = words.index("--kubernetes")
        words[source : source + 2] = ["--endpoints", str(self.endpoints)]
        words += ["--listen", self.xds, "--feed", f"127.0.0.1:{free_port()}"]
        async with (
            running(sys.executable, *asked["command"][1:], *words),
            running(*envoy("h100", self.edge)),
            httpx.AsyncClient(
                verify=self.trusting(),
                base_url=f"{scheme}://127.0.0.1:{self.port}",
                trust_env=False,
            ) as client,
        ):
            await self.until_ready(client)
            yield client

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.operator.authority.file)

    async def until_ready(self, client: httpx.AsyncClient) -> None:
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(httpx.TransportError):
                    if (await client.get("/edge/healthz")).status_code == 200:
                        return
                await asyncio.sleep(0.05)

    async def serial(self) -> int:
        """Of the certificate that a new connection is shown."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trusting())
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return x509.load_der_x509_certificate(shown).serial_number


async def test_keys_end_and_certificates_are_renewed_as_the_mounts_are_refreshed(
    tmp_path: Path, operator: Operator
) -> None:
    key = operator.issue()
    operator.renew()
    fleet = Fleet(tmp_path, operator)
    seen = {p.name for f in (fleet.edge, fleet.discovery) for p in f.root.rglob("*")}
    assert "signing-key.pem" not in seen
    assert not list(fleet.edge.root.rglob("keys.json")), "edges know of no key who has it"
    shown = {"authorization": f"Bearer {key.text}"}
    async with upstream.Upstream(1) as replica, fleet.serving(replica) as client:
        assert (await client.post("/v1/corrections")).status_code == 401
        answer = await client.post("/v1/corrections", headers=shown)
        assert (answer.status_code, answer.headers["x-ratelimit-limit"]) == (200, "100")

        operator.store.revoke(key.record.key_id, time.time())
        another = {"authorization": f"Bearer {operator.issue().text}"}
        before = operator.serial
        operator.renew()
        assert await fleet.serial() == before
        fleet.refresh()
        async with asyncio.timeout(20):
            while (await client.post("/v1/corrections", headers=shown)).status_code != 401:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            while await fleet.serial() != operator.serial:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert (await client.post("/v1/corrections", headers=another)).status_code == 200


async def test_edges_that_start_with_both_public_halves_take_keys_of_either(
    tmp_path: Path, operator: Operator
) -> None:
    old = operator.issue()
    operator.renew()
    operator.new_signing_key()
    made = operator.store.rotate(
        old.record.key_id, overlap_s=3600, lifetime_s=3600, unix_s=time.time()
    )
    fleet = Fleet(tmp_path, operator)
    async with upstream.Upstream(1) as replica, fleet.serving(replica) as client:
        for key in (old, made):
            shown = {"x-api-key": key.text}
            answer = await client.post("/v1/corrections", headers=shown)
            assert (answer.status_code, answer.headers["x-ratelimit-limit"]) == (200, "100")


async def test_an_edge_of_before_goes_on_under_a_discovery_that_asks_for_keys_already(
    tmp_path: Path, operator: Operator
) -> None:
    """Both are rolled at once where the settings change. The other way round a new edge is not
    ready before it meets a new discovery, since its probe has no key."""
    operator.issue()
    operator.renew()
    fleet = Fleet(tmp_path, operator)
    fleet.edge.put("/etc/liftlock/settings", {"edge.yaml": b"edges: 1"})
    async with upstream.Upstream(1) as replica, fleet.serving(replica, "http") as client:
        assert (await client.post("/v1/corrections")).status_code == 200


def test_the_records_of_two_thousand_keys_fit_into_a_secret(operator: Operator) -> None:
    longest = dataclasses.replace(TERMS, name="x" * MAX_NAME_CHARS, scopes=tuple(Scope))
    sizes = []
    for _ in range(2):
        operator.store.issue(longest, time.time())
        sizes.append(operator.store.records_file.stat().st_size)
    assert 2_000 * (sizes[1] - sizes[0]) < 2**20, "Kubernetes' limit"
