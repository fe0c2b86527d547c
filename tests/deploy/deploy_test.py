"""deploy/ and configs/ without a cluster: every manifest against Kubernetes' schemas, the Dockerfile by hadolint, and what no schema
knows: that flags, settings, ports, names and limits of the files fit each other and the programs."""
import json
import os
import pathlib
import re
import subprocess
import sysconfig
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE = ROOT / "deploy/base"
DOCKERFILE = ROOT / "deploy/Dockerfile"
TOOLS = pathlib.Path(sysconfig.get_path("scripts"))
PROGRAMS = {"prefill": os.environ["LYNX_TEST_PREFILL_NODE"], "decode": os.environ["LYNX_TEST_DECODE_NODE"]}
PORTS = {"prefill": {"control": 7000, "http": 7001}, "decode": {"http": 8000, "grpc": 8001}}
OLDEST_KUBERNETES = "1.29"


def run(*command: str) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LYNX_")}
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False, env=environment)


def validate(*arguments) -> subprocess.CompletedProcess:
    return run(TOOLS / "kubernetes-validate", "--strict", *arguments)


def documents() -> list[dict]:
    return [document for path in sorted(BASE.glob("*.yaml")) if path.name != "kustomization.yaml" for document in yaml.safe_load_all(path.read_text())]


def of_kind(kind: str) -> dict[str, dict]:
    """Objects by their name without "lynx-"."""
    return {document["metadata"]["name"].removeprefix("lynx-"): document for document in documents() if document["kind"] == kind}


def settings(program: str, *arguments: str) -> dict:
    printed = run(program, *arguments, "--print-config")
    assert printed.returncode == 0, (arguments, printed.stderr)
    return json.loads(printed.stdout)


def dockerfile() -> str:
    """Without comments, one instruction a line."""
    return re.sub(r"\\\n\s*", "", re.sub(r"(?m)^\s*#.*\n", "", DOCKERFILE.read_text()))


class ManifestsTest(unittest.TestCase):
    def setUp(self):
        self.deployments = of_kind("Deployment")
        self.assertEqual(sorted(self.deployments), ["decode", "prefill"])

    def pods(self):
        for role, deployment in self.deployments.items():
            yield role, deployment["spec"]["template"]["spec"]

    def main_container(self, role: str) -> dict:
        (container,) = self.deployments[role]["spec"]["template"]["spec"]["containers"]
        return container

    def test_every_manifest_fits_the_schemas(self):
        files = [path for path in sorted(BASE.glob("*.yaml")) if path.name != "kustomization.yaml"]
        self.assertGreaterEqual(len(files), 3)
        for version in ((), ("--kubernetes-version", OLDEST_KUBERNETES)):
            result = validate(*version, *files)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertEqual((result.stdout + result.stderr).count("passed"), len(documents()))

    def test_the_validator_refuses_what_no_schema_has(self):
        broken = dict(self.deployments["decode"], spec=dict(self.deployments["decode"]["spec"], replicsa=2))
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(broken, file)
            file.flush()
            result = validate(file.name)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("replicsa", result.stdout + result.stderr)

    def test_kustomization_names_the_files_that_are_there(self):
        kustomization = yaml.safe_load((BASE / "kustomization.yaml").read_text())
        self.assertEqual(set(kustomization), {"apiVersion", "kind", "resources", "configMapGenerator"})
        (generator,) = kustomization["configMapGenerator"]
        self.assertEqual(set(generator), {"name", "files"})
        listed = kustomization["resources"] + generator["files"] + ["kustomization.yaml"]
        self.assertEqual(sorted(listed), sorted(path.name for path in BASE.iterdir()))
        generated = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generator["name"]},
                     "data": {name: (BASE / name).read_text() for name in generator["files"]}}
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(generated, file)
            file.flush()
            self.assertEqual(validate(file.name).returncode, 0)
        for role, pod in self.pods():
            (volume,) = [volume for volume in pod["volumes"] if "configMap" in volume]
            self.assertEqual(volume["configMap"]["name"], generator["name"], role)
        self.assertEqual(of_kind("Secret"), {}, "secrets are not kept in the repository")

    def test_no_container_has_privileges(self):
        for role, pod in self.pods():
            security = pod["securityContext"]
            self.assertTrue(security["runAsNonRoot"] and security["runAsUser"] > 0 and security["runAsGroup"] > 0, role)
            self.assertEqual(security["seccompProfile"], {"type": "RuntimeDefault"})
            self.assertFalse(pod["automountServiceAccountToken"])
            for name in ("hostNetwork", "hostPID", "hostIPC"):
                self.assertNotIn(name, pod)
            self.assertFalse([volume for volume in pod["volumes"] if "hostPath" in volume])
            for container in pod["containers"] + pod["initContainers"]:
                self.assertEqual(container["securityContext"], {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                                "capabilities": {"drop": ["ALL"]}})
                self.assertTrue(container["resources"]["limits"] and container["resources"]["requests"])

    def test_images_are_the_dockerfiles_by_name_and_version(self):
        version = re.search(r"project\(lynx VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual(set(re.findall(r'image\.version="([^"]*)"', dockerfile())), {version})
        for _, pod in self.pods():
            self.assertEqual([container["image"] for container in pod["initContainers"]], [f"lynx-model:{version}"])
            self.assertEqual([container["image"] for container in pod["containers"]], [f"lynx:{version}"])

    def test_the_programs_accept_their_arguments_and_settings(self):
        for role, pod in self.pods():
            container = self.main_container(role)
            self.assertEqual(container["command"], [pathlib.Path(PROGRAMS[role]).name])
            (volume,) = [volume["name"] for volume in pod["volumes"] if "configMap" in volume]
            folder = next(mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == volume)
            arguments = [argument.replace(folder, str(BASE)).replace("$(POD_IP)", "10.1.2.3") for argument in container["args"]]
            shown = settings(PROGRAMS[role], *arguments)
            for key, value in json.loads((BASE / f"{role}.json").read_text()).items():
                self.assertEqual(shown[key], value, (role, key))
            self.assertEqual(shown["host"], "0.0.0.0")
            self.assertLessEqual(shown["threads"], int(container["resources"]["limits"]["cpu"]))
            self.assertGreater(shown["threads"], 0)
            pause = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
            self.assertGreater(pod["terminationGracePeriodSeconds"], shown["shutdown-timeout"] + int(pause[1]))
            self.assertFalse(pod["enableServiceLinks"])

    def test_files_that_settings_name_are_mounted(self):
        for role, pod in self.pods():
            chosen = json.loads((BASE / f"{role}.json").read_text())
            mounts = {mount["name"]: mount["mountPath"] for mount in self.main_container(role)["volumeMounts"]}
            self.assertEqual(set(mounts), {volume["name"] for volume in pod["volumes"]})
            (secret,) = [volume for volume in pod["volumes"] if "secret" in volume]
            self.assertIn(chosen["pair-secret-file"], [f"{mounts[secret['name']]}/{item['path']}" for item in secret["secret"]["items"]])
            (init,) = pod["initContainers"]
            self.assertIn({"name": "model", "mountPath": mounts["model"]}, init["volumeMounts"])
            model = pathlib.PurePosixPath(chosen["model"])
            self.assertEqual(str(model.parent), mounts["model"])
            self.assertIn(f'CMD ["cp", "/models/{model.name}", "{mounts["model"]}/"]', dockerfile())

    def test_ports_of_settings_containers_services_and_probes_agree(self):
        services = of_kind("Service")
        exposed = set(map(int, re.search(r"(?m)^EXPOSE (.*)$", dockerfile())[1].split()))
        self.assertEqual(exposed, {port for ports in PORTS.values() for port in ports.values()})
        for role, ports in PORTS.items():
            container = self.main_container(role)
            chosen = json.loads((BASE / f"{role}.json").read_text())
            self.assertEqual({port["name"]: port["containerPort"] for port in container["ports"]}, ports)
            self.assertEqual({name: chosen[f"{name}-port"] for name in ports}, ports)
            service = services[role]["spec"]
            self.assertEqual(service["clusterIP"], "None")
            self.assertEqual({port["targetPort"]: port["port"] for port in service["ports"]}, ports)
            labels = self.deployments[role]["spec"]["template"]["metadata"]["labels"]
            self.assertEqual(service["selector"], labels)
            self.assertEqual(self.deployments[role]["spec"]["selector"]["matchLabels"], labels)
            probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")}
            self.assertEqual(probes["readiness"], {"path": "/health", "port": "http"})
            self.assertEqual(probes["liveness"], {"path": "/ping", "port": "http"})
            self.assertEqual(probes["startup"], {"path": "/health" if role == "prefill" else "/ping", "port": "http"})
        self.assertEqual(json.loads((BASE / "decode.json").read_text())["prefill"], "lynx-prefill:7000")

    def test_only_the_other_node_reaches_control_port_and_data_plane(self):
        policies = of_kind("NetworkPolicy")
        open_to_all = {"prefill": {7001}, "decode": {8000, 8001}}
        for role, other in (("prefill", "decode"), ("decode", "prefill")):
            spec = policies[role]["spec"]
            labels = {name: self.deployments[name]["spec"]["template"]["metadata"]["labels"] for name in (role, other)}
            self.assertEqual(spec["podSelector"]["matchLabels"], labels[role])
            self.assertEqual(spec["policyTypes"], ["Ingress"])
            peers, anybody = spec["ingress"]
            self.assertEqual(peers, {"from": [{"podSelector": {"matchLabels": labels[other]}}]})
            self.assertEqual(set(anybody), {"ports"})
            self.assertEqual({port["port"] for port in anybody["ports"]}, open_to_all[role])


class ImageTest(unittest.TestCase):
    def test_hadolint_finds_nothing(self):
        result = run(TOOLS / "hadolint", DOCKERFILE)
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
        with tempfile.NamedTemporaryFile("w", suffix=".Dockerfile") as file:
            file.write("FROM debian:latest\nRUN cd /tmp\n")
            file.flush()
            refused = run(TOOLS / "hadolint", file.name)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("DL3007", refused.stdout)

    def test_the_base_is_pinned_and_the_user_is_not_root(self):
        text = dockerfile()
        self.assertRegex(text, r"(?m)^ARG BASE=debian:12-slim$")
        stages = re.findall(r"(?m)^FROM (\S+) AS (\S+)$", text)
        self.assertEqual(len(stages), len(re.findall(r"(?m)^FROM ", text)))
        known = {"${BASE}"}
        for source, name in stages:
            self.assertIn(source, known)
            known.add(name)
        self.assertEqual(stages[-1], ("${BASE}", "runtime"))
        for stage in ("model", "runtime"):
            body = re.search(rf"(?ms)^FROM \S+ AS {stage}$(.*?)(?=^FROM |\Z)", text)[1]
            self.assertRegex(body, r"(?m)^USER 10001:10001$")

    def test_the_context_holds_every_room_that_is_built(self):
        allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
        rooms = set(re.findall(r"(?m)^add_subdirectory\((\w+)\)", (ROOT / "CMakeLists.txt").read_text()))
        self.assertEqual(allowed, rooms | {"CMakeLists.txt", "CMakePresets.json", "cmake", "scripts"})

    def test_the_image_has_every_library_that_the_programs_load(self):
        (line,) = re.findall(r"apt-get install -y --no-install-recommends (.*?)&&", dockerfile())
        installed = set(line.split()) | {"libc6", "libgcc-s1"}  # The base's, and what libstdc++6 needs.
        needed = set()
        for program in PROGRAMS.values():
            listed = run("readelf", "-d", program)
            self.assertEqual(listed.returncode, 0, listed.stderr)
            libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", listed.stdout)
            self.assertGreater(len(libraries), 5)
            for library in libraries:
                if library in ("libucp.so.0", "libucs.so.0", "libuct.so.0", "libucm.so.0"):
                    continue  # From the build stage.
                owner = run("dpkg-query", "--search", f"*-linux-gnu/{library}")
                self.assertEqual(owner.returncode, 0, f"{library}: {owner.stderr}")
                needed |= {entry.split(":")[0] for entry in owner.stdout.splitlines()}
        self.assertLessEqual(needed, installed)


class ConfigsTest(unittest.TestCase):
    def test_the_programs_accept_the_examples(self):
        examples = {"aggregated": "decode", "decode": "decode", "prefill": "prefill"}
        self.assertEqual({path.stem for path in (ROOT / "configs").glob("*.json")}, set(examples))
        for name, role in examples.items():
            path = ROOT / f"configs/{name}.json"
            shown = settings(PROGRAMS[role], "--config", str(path))
            for key, value in json.loads(path.read_text()).items():
                self.assertEqual(shown[key], value, (name, key))


if __name__ == "__main__":
    unittest.main()
