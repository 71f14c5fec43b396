import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/base/clock.ts";
import { BerthError } from "../../src/base/errors.ts";
import { buildFiles, writeFiles } from "../../src/controller/apps/app-files.ts";
import { findDifferences } from "../../src/controller/container-differences.ts";
import { NO_RESTRICTIONS } from "../../src/controller/container-settings.ts";
import { APP, INSTANCE } from "../../src/controller/labels.ts";
import { divideSubnet } from "../../src/controller/reserved-addresses.ts";
import { DockerRuntime } from "../../src/controller/runtime/docker-runtime.ts";
import type { ContainerSpec, LogLine, RuntimeEvent } from "../../src/controller/runtime/port.ts";
import { dockerClient, dockerHost } from "../support/engine.ts";
import { startEngineProxy } from "../support/engine-proxy.ts";
import { EngineRelay } from "../support/engine-relay.ts";
import { sweep } from "../support/engine-runs.ts";
import { SHELL, WEB } from "../support/images.ts";
import { randomInstance } from "../support/random-instance.ts";

const signal = new AbortController().signal;
const instance = randomInstance();
const labels = { [INSTANCE]: instance, [APP]: "one" };
const network = `docker-test-${instance}`;
const runtime = new DockerRuntime({ host: dockerHost(), clock: systemClock });
let count = 0;

const plainSpec = { env: [], aliases: [], mounts: [], publish: [], stopGraceMs: 1_000 };
const device = { PathOnHost: "/dev/null", PathInContainer: "/dev/more", CgroupPermissions: "r" };

async function make(changes: Partial<ContainerSpec>): Promise<string> {
  await runtime.ensureNetwork(network, labels, signal);
  count += 1;
  return runtime.createContainer(
    {
      name: `${network}-${count}`,
      image: SHELL,
      labels,
      network,
      ...plainSpec,
      ...changes,
    },
    signal,
  );
}

async function run(changes: Partial<ContainerSpec>): Promise<string> {
  const id = await make(changes);
  await runtime.startContainer(id, signal);
  return id;
}

/** Returns the last lines of a container's log after its exit. */
async function output(id: string, tail: number): Promise<LogLine[]> {
  await dockerClient().getContainer(id).wait();
  const lines: LogLine[] = [];
  for await (const line of runtime.logs(id, { tail, follow: false }, signal)) lines.push(line);
  return lines;
}

const shell = (script: string) => ({ command: ["/bin/sh", "-c", script] });

afterEach(async () => {
  await sweep(dockerClient(), `${INSTANCE}=${instance}`);
});
afterAll(async () => {
  await runtime[Symbol.asyncDispose]();
});

describe("the files of an app on Docker", () => {
  it("are seen read-only by programs of any user, although their folder is closed to other users", async () => {
    const dir = await mkdtemp(join(tmpdir(), "berth-files-"));
    try {
      const files = buildFiles(
        join(dir, "files"),
        "one",
        [{ path: "/etc/one/deep/app.conf", content: "port 80\n", mode: 0o444 }],
        () => "",
      );
      writeFiles(files);
      const mounts = files.map(({ hostPath, path }) => ({
        type: "bind" as const,
        hostPath,
        path,
        readOnly: true,
      }));
      const id = await run({
        ...shell("cat /etc/one/deep/app.conf; echo x > /etc/one/deep/app.conf || echo refused"),
        user: "1000:1000",
        mounts,
        restrictions: { ...NO_RESTRICTIONS, readOnlyRoot: true },
      });
      const lines = (await output(id, 10)).map(({ message }) => message);
      expect(lines).toContain("port 80");
      expect(lines).toContain("refused");
      expect(await readFile(files[0]?.hostPath ?? "", "utf8")).toBe("port 80\n");
    } finally {
      await rm(dir, { recursive: true });
    }
  });
});

describe("a network on Docker", () => {
  const docker = dockerClient();
  const name = `${network}-plain`;
  const createPlain = () =>
    docker.createNetwork({ Name: name, Labels: labels, CheckDuplicate: true });
  const createUser = () =>
    docker.createContainer({ Image: SHELL, Labels: labels, HostConfig: { NetworkMode: name } });
  const readRange = () => runtime.reservedRange(name, signal);

  it("has reserved addresses in its upper half, and gets its subnet back when it is removed and created again", async () => {
    await runtime.ensureNetwork(name, labels, signal);
    const [subnet = ""] = await runtime.networkSubnets(name, signal);
    expect(await readRange()).toBe(divideSubnet(subnet)?.reserved);
    await runtime.removeNetwork(name, signal);
    await runtime.ensureNetwork(name, labels, signal);
    expect(await runtime.networkSubnets(name, signal)).toEqual([subnet]);
    expect(await readRange()).toBe(divideSubnet(subnet)?.reserved);
  });

  it("that is created again gets another subnet if another network has taken the previous one", async () => {
    await runtime.ensureNetwork(name, labels, signal);
    const [Subnet = ""] = await runtime.networkSubnets(name, signal);
    await runtime.removeNetwork(name, signal);
    const taker = { Name: `${name}-taker`, Labels: labels, IPAM: { Config: [{ Subnet }] } };
    await docker.createNetwork(taker);
    await runtime.ensureNetwork(name, labels, signal);
    expect(await runtime.networkSubnets(name, signal)).not.toContain(Subnet);
    expect(await readRange()).toBeDefined();
  });

  it("that an earlier version of Berth has created is not replaced while a container refers to it, stopped or running", async () => {
    const { id } = await createPlain();
    const user = await createUser();
    for (const isRunning of [false, true]) {
      if (isRunning) await user.start();
      await using later = new DockerRuntime({ host: dockerHost(), clock: systemClock });
      await later.ensureNetwork(name, labels, signal);
      expect((await docker.getNetwork(name).inspect()).Id).toBe(id);
      expect(await later.reservedRange(name, signal)).toBeUndefined();
      const spec = { name: `${name}-${isRunning}`, image: SHELL, network: name, labels };
      const own = await later.createContainer(
        { ...spec, ...plainSpec, reservedAddress: 0 },
        signal,
      );
      await later.startContainer(own, signal);
      await later.removeContainer(own, signal);
    }
  });

  it("that an earlier version of Berth has created is replaced when Berth starts if no container refers to it", async () => {
    await createPlain();
    const [subnet = ""] = await runtime.networkSubnets(name, signal);
    await using later = new DockerRuntime({ host: dockerHost(), clock: systemClock });
    await later.ensureNetwork(name, labels, signal);
    expect(await readRange()).toBe(divideSubnet(subnet)?.reserved);
  });

  // Berth makes three requests to create a network: it creates it, removes it, and creates it again with the same
  // subnet.
  it.each([1, 2, 3])(
    "is complete after the next start, even if Berth was killed at request %i of its creation: there is one network, with reserved addresses and containers",
    async (at) => {
      const folder = await mkdtemp(join(tmpdir(), "berth-network-"));
      const host = `unix://${join(folder, "relay.sock")}`;
      await using relay = await EngineRelay.open(host, dockerHost());
      for (const moment of ["before", "unanswered"] as const) {
        await using killed = new DockerRuntime({ host, clock: systemClock });
        const dying = new AbortController();
        relay.setTrap({ at, moment, act: () => dying.abort(new Error("killed")) });
        await expect(killed.ensureNetwork(name, labels, dying.signal)).rejects.toThrow("killed");
        expect(relay.seen.map((request) => request.replace(/[0-9a-f]{64}/, "ID"))).toEqual(
          ["POST /networks/create", "DELETE /networks/ID", "POST /networks/create"].slice(0, at),
        );
        relay.setTrap(undefined);
        await using next = new DockerRuntime({ host, clock: systemClock });
        await next.ensureNetwork(name, labels, signal);
        const found = await docker.listNetworks({ filters: { name: [name] } });
        expect(found).toHaveLength(1);
        const [subnet = ""] = await next.networkSubnets(name, signal);
        expect(await readRange()).toBe(divideSubnet(subnet)?.reserved);
        const spec = { name: `${name}-${moment}`, image: SHELL, network: name, labels };
        const own = await next.createContainer(
          { ...spec, ...plainSpec, reservedAddress: 0 },
          signal,
        );
        await next.startContainer(own, signal);
        await next.removeContainer(own, signal);
        await next.removeNetwork(name, signal);
      }
      await rm(folder, { recursive: true });
    },
  );
});

describe("a container on Docker", () => {
  it("has limited logs, an init process, no restart policy, and a hosts entry for host.docker.internal", async () => {
    const id = await run({});
    const { HostConfig: config } = await dockerClient().getContainer(id).inspect();
    expect(config.LogConfig).toEqual({
      Type: "json-file",
      Config: { "max-size": "10m", "max-file": "3" },
    });
    expect(config.Init).toBe(true);
    expect(config.RestartPolicy?.Name).toBe("no");
    const hosts = await runtime.exec(id, ["cat", "/etc/hosts"], 5_000, signal);
    expect(hosts.output).toContain("host.docker.internal");
  });

  it("is reported as different from its spec if another program has created it with other settings", async () => {
    const spec = { name: `${network}-own`, image: SHELL, network, labels, ...plainSpec };
    const docker = dockerClient();
    await runtime.ensureNetwork(network, labels, signal);
    const id = await runtime.createContainer(spec, signal);
    const { Config: config, HostConfig: host } = await docker.getContainer(id).inspect();
    const hostChanges = {
      volumes: { Binds: ["/usr/share:/data:ro"] },
      Mounts: { Mounts: [{ Type: "tmpfs", Target: "/more" }] },
      tmpfs: { Tmpfs: { "/more": "" } },
      dropCapabilities: { CapDrop: ["NET_RAW"] },
      noNewPrivileges: { SecurityOpt: ["no-new-privileges"] },
      SecurityOpt: { SecurityOpt: ["apparmor=unconfined"] },
      CapAdd: { CapAdd: ["NET_ADMIN"] },
      Devices: { Devices: [device] },
      GroupAdd: { GroupAdd: ["0"] },
      readOnlyRoot: { ReadonlyRootfs: true },
      AutoRemove: { AutoRemove: true },
      ExtraHosts: { ExtraHosts: ["example.org:127.0.0.1"] },
      PidMode: { PidMode: "host" },
      IpcMode: { IpcMode: "host" },
      Privileged: { Privileged: true },
      CpuShares: { CpuShares: 512 },
      PidsLimit: { PidsLimit: 100 },
    };
    const changes: readonly (readonly [string, object])[] = [
      ["entrypoint", { Entrypoint: ["/bin/sh"] }],
      ["workingDir", { WorkingDir: "/tmp" }],
      ...Object.entries(hostChanges).map(
        ([field, change]) => [field, { HostConfig: { ...host, ...change } }] as const,
      ),
    ];
    for (const [field, change] of changes) {
      const name = `${network}-${field}`;
      const made = await docker.createContainer({ ...config, HostConfig: host, ...change, name });
      const listed = await runtime.listContainers({ instance }, signal);
      const found = listed.find((container) => container.id === made.id);
      expect(found && findDifferences(found, { ...spec, name })).toContain(field);
      await made.remove({ v: true });
    }
    const [own] = await runtime.listContainers({ instance }, signal);
    expect(own && findDifferences(own, spec)).toEqual([]);
  });

  it("is reachable under its alias on its network", async () => {
    const web = await run({ image: WEB, aliases: ["db"], env: ["BODY=from the alias"] });
    const client = await run({});
    const script = "until wget -q -O - http://db:8080/; do sleep 0.1; done";
    const answer = await runtime.exec(client, ["sh", "-c", script], 20_000, signal);
    expect(answer.output).toContain("from the alias");
    await runtime.removeContainer(web, signal);
  });

  it("reports that it was killed because it ran out of memory", async () => {
    const id = await run({
      ...shell("sleep 0.2; tail /dev/zero"),
      memoryBytes: 16 * 2 ** 20,
    });
    await output(id, 1);
    // The engine can report the lack of memory a moment after the exit.
    await expect
      .poll(async () => (await runtime.listContainers({ instance }, signal))[0])
      .toMatchObject({ state: "exited", oomKilled: true });
  });

  it("continues when it was paused and is started again", async () => {
    const id = await run({});
    await dockerClient().getContainer(id).pause();
    expect((await runtime.listContainers({ instance }, signal))[0]?.state).toBe("paused");
    await runtime.startContainer(id, signal);
    expect((await runtime.listContainers({ instance }, signal))[0]?.state).toBe("running");
  });

  it("is removed while it is paused", async () => {
    const id = await run({});
    await dockerClient().getContainer(id).pause();
    await runtime.removeContainer(id, signal);
    expect(await runtime.listContainers({ instance }, signal)).toEqual([]);
  });

  it("exits with 127 and a log line if its command does not exist", async () => {
    const id = await run({ command: ["/bin/no-such-command"] });
    expect((await output(id, 10)).map((line) => line.message).join()).toContain("no-such-command");
    expect((await runtime.listContainers({ instance }, signal))[0]?.exitCode).toBe(127);
  });
});

describe("reading logs of Docker", () => {
  it("splits a long line without losses", async () => {
    // The engine splits log lines at 16 KiB, and writes a time before each part.
    const id = await run(shell("yes ü | head -n 75000 | tr -d '\\n'; echo end; echo after"));
    const lines = await output(id, 100);
    expect(lines.at(-1)?.message).toBe("after");
    expect(
      lines
        .slice(0, -1)
        .map((line) => line.message)
        .join(""),
    ).toBe(`${"ü".repeat(75_000)}end`);
    for (const line of lines) expect(Buffer.byteLength(line.message)).toBeLessThanOrEqual(65_536);
    expect(lines.length).toBeLessThanOrEqual(5);
  });

  it("returns empty lines, and a last line without a newline", async () => {
    const id = await run(shell("printf 'a\\n\\nb\\r\\nlast'"));
    expect((await output(id, 100)).map((line) => line.message)).toEqual(["a", "", "b", "last"]);
  });

  it("returns ten thousand lines in order", async () => {
    const id = await run(shell("seq 1 12000"));
    const messages = (await output(id, 10_000)).map((line) => Number(line.message));
    expect(messages).toEqual(Array.from({ length: 10_000 }, (_, index) => index + 2_001));
  });
});

describe("commands on Docker", () => {
  it("end at a time limit", async () => {
    const id = await run({});
    await expect(runtime.exec(id, ["sleep", "30"], 300, signal)).rejects.toMatchObject({
      code: "timeout",
    });
  });

  it("return the last 4 KiB of their output", async () => {
    const id = await run({});
    const result = await runtime.exec(id, ["seq", "1", "5000"], 10_000, signal);
    expect(result.output.length).toBe(4_096);
    expect(result.output.endsWith("4999\n5000\n")).toBe(true);
  });

  it("fail with the exit code of a shell if the program does not exist", async () => {
    const id = await run({});
    const result = await runtime.exec(id, ["no-such-command"], 5_000, signal);
    expect([126, 127]).toContain(result.exitCode);
    const probe = { type: "command", command: ["no-such-command"] } as const;
    expect((await runtime.probe(id, probe, 5_000, signal)).healthy).toBe(false);
  });
});

describe("probes on Docker", () => {
  it("do not follow a redirect: the redirect itself counts as healthy", async () => {
    const id = await run(
      shell(
        "while :; do printf 'HTTP/1.1 302 Found\\r\\nLocation: http://127.0.0.1:1/\\r\\n\\r\\n' | nc -l -p 8080; done",
      ),
    );
    const target = { type: "http", port: 8080, path: "/x y" } as const;
    await expect
      .poll(() => runtime.probe(id, target, 1_000, signal))
      .toEqual({ healthy: true, message: "GET /x y answered 302" });
  });

  it("fail with a message if a response takes too long", async () => {
    const id = await run({ image: WEB });
    const target = { type: "http", port: 8080, path: "/" } as const;
    await expect
      .poll(() => runtime.probe(id, target, 1_000, signal))
      .toMatchObject({ healthy: true });
    // The kernel still accepts connections for a stopped process, but no response arrives.
    await runtime.exec(id, ["busybox", "killall", "-STOP", "httpd"], 5_000, signal);
    expect(await runtime.probe(id, target, 300, signal)).toEqual({
      healthy: false,
      message: "GET / did not answer within 300 ms",
    });
  });

  it("return the listening ports of a container, but not the port of the engine's name server", async () => {
    const id = await run({ image: WEB, env: ["PORT=9099"] });
    await expect.poll(() => runtime.listeningPorts(id, signal)).toEqual([9099]);
  });
});

describe("the event stream of Docker", () => {
  it("reconnects when it is cut, and reports both the cut and the reconnection", async () => {
    await using proxy = await startEngineProxy(dockerHost());
    await using far = new DockerRuntime({ host: proxy.host, clock: systemClock });
    const reader = new AbortController();
    const seen: RuntimeEvent[] = [];
    let id = "";
    for await (const event of far.events({ instance }, reader.signal)) {
      seen.push(event);
      const connects = seen.filter((item) => item.type === "connected").length;
      if (event.type === "connected" && connects === 1) proxy.cut();
      if (event.type === "disconnected") {
        // The container is created while the event stream is disconnected; the reconnect with `since` returns its
        // events.
        id = await run({});
        proxy.restore();
      }
      if (event.type === "container" && event.id === id && event.action === "start") reader.abort();
    }
    expect(seen.slice(0, 3).map((event) => event.type)).toEqual([
      "connected",
      "disconnected",
      "connected",
    ]);
    expect(seen.at(-1)).toEqual({ type: "container", action: "start", id, app: "one" });
  });
});

describe("an engine that becomes unreachable", () => {
  it("makes running and new calls fail, and calls succeed again when it is back", async () => {
    await using proxy = await startEngineProxy(dockerHost());
    await using far = new DockerRuntime({ host: proxy.host, clock: systemClock });
    const id = await run({ ...shell("trap '' TERM; while :; do sleep 1; done") });
    await far.info(signal);
    const stopping = far.stopContainer(id, 5_000, signal);
    const outcome = stopping.then(
      () => "stopped",
      (error: unknown) => (error instanceof BerthError ? error.code : error),
    );
    await proxy.requested("/stop");
    proxy.cut();
    expect(await outcome).toBe("engine_unreachable");
    await expect(far.info(signal)).rejects.toMatchObject({ code: "engine_unreachable" });
    proxy.restore();
    expect((await far.info(signal)).name).toBe("docker");
  });
});
