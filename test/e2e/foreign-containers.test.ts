import type Docker from "dockerode";
import { expect, test } from "vitest";
import { BerthProcess, conditionOf, fetchText } from "../support/berth-process.ts";
import { freePorts } from "../support/free-port.ts";
import { SHELL, WEB, WEB_2 } from "../support/images.ts";

/** Tests how Berth treats containers with Berth's labels that another program has created on a real engine. */

const web = {
  image: WEB,
  port: 8080,
  env: { GREETING: "hi" },
  stopGracePeriod: "1s",
  healthCheck: { path: "/healthz", interval: "200ms" },
} as const;

type Change = (options: Docker.ContainerCreateOptions, host: Docker.HostConfig) => void;

/**
 * Removes the container of a suspended app, and creates it again with the same labels and with settings that `change`
 * has modified. Starts the new container if the test machine accepts its settings.
 */
async function recreate(berth: BerthProcess, app: string, change: Change): Promise<string> {
  const own = await berth.container(app);
  const { Name: name, Config: config, HostConfig: host, Image: image } = await own.inspect();
  const options = {
    ...config,
    name: name.slice(1),
    Image: image,
    HostConfig: host,
    NetworkingConfig: { EndpointsConfig: { [`berth-${berth.instance}`]: { Aliases: [app] } } },
  };
  change(options, host);
  await own.remove({ force: true });
  const made = await berth.docker.createContainer(options);
  await made.start().catch(() => {});
  return made.id;
}

/** Recreates the container while the app is suspended, and then lets Berth manage the app again. */
async function replaceByHand(berth: BerthProcess, app: string, change: Change): Promise<string> {
  await berth.client.apps.patch(app, { suspend: true }, { wait: true });
  const id = await recreate(berth, app, change);
  await berth.client.apps.patch(app, { suspend: false });
  return id;
}

const changes: Readonly<Record<string, Readonly<Record<string, Change>>>> = {
  one: {
    image: (options) => (options.Image = WEB_2),
    "env GREETING": (options) => (options.Env = ["GREETING=secret-value"]),
    command: (options) => (options.Cmd = ["/bin/sh", "-c", "exec /bin/web"]),
  },
  two: {
    user: (options) => (options.User = "root"),
    volumes: (_, host) => (host.Binds = ["/usr/share:/share:ro"]),
    SecurityOpt: (_, host) => (host.SecurityOpt = ["seccomp=unconfined"]),
  },
  three: {
    ports: (_, host) => {
      const bindings: Docker.PortMap = host.PortBindings;
      for (const [binding] of Object.values(bindings)) if (binding) binding.HostIp = "0.0.0.0";
    },
    RestartPolicy: (_, host) => (host.RestartPolicy = { Name: "always" }),
    networks: (options, host) => {
      host.NetworkMode = "bridge";
      options.NetworkingConfig = {};
    },
  },
};

/**
 * Recreates the container of a suspended app, and asserts that a dry run of its resumption names the changed settings.
 */
async function expectPlanNamesSettings(berth: BerthProcess, app: string): Promise<void> {
  await berth.client.apps.patch(app, { suspend: true }, { wait: true });
  const id = await recreate(berth, app, (options, host) => {
    options.User = "root";
    host.CapDrop = ["MKNOD"];
  });
  const planned = await berth.client.apps.patch(app, { suspend: false }, { dryRun: true });
  const operations = planned.dryRun ? (planned.report.plan?.operations ?? []) : [];
  expect(operations.map(({ cause }) => cause)).toContain(
    "the container was created or changed by hand, with other settings: user, dropCapabilities",
  );
  expect((await berth.container(app)).id).toBe(id);
}

test("a container that another program has recreated with other settings is replaced, and the changed field is named", async () => {
  await using berth = await BerthProcess.open();
  await Promise.all(
    Object.keys(changes).map((name) => berth.client.apps.create({ name, ...web }, { wait: true })),
  );
  await Promise.all(
    Object.entries(changes).map(async ([app, list]) => {
      for (const [field, change] of Object.entries(list)) {
        const id = await replaceByHand(berth, app, change);
        await berth.until(`${app} is replaced for ${field}`, async () => {
          const [own, ...others] = await berth.containers(app);
          return own !== undefined && own.Id !== id && others.length === 0;
        });
        const { url } = await berth.waitForAppReady(app);
        expect(await fetchText(url)).toBe("web:1\n");
      }
      const { events } = await berth.client.events.list({ kind: "App", name: app, limit: 500 });
      const messages = events
        .filter(({ reason }) => reason === "DriftCorrected")
        .map(({ message }) => message);
      for (const field of Object.keys(list))
        expect(messages).toContain(`${app}: "${field}" was changed by hand; it is corrected`);
      expect(JSON.stringify([events, await berth.app(app)])).not.toContain("secret-value");
    }),
  );
  await expectPlanNamesSettings(berth, "two");
  const described = await berth.cli(["describe", "one"]);
  expect(described.stdout).toContain('"env GREETING" was changed by hand');
  expect(`${described.stdout}${berth.output}`).not.toContain("secret-value");
});

test("a restart of Berth replaces neither the container of an app with every field, nor one that was recreated by hand with equal settings", async () => {
  await using berth = await BerthProcess.open();
  const { client } = berth;
  const [hostPort = 0] = await freePorts(1);
  await client.secrets.put("token", { data: { value: "the secret token" } });
  await client.apps.create(
    {
      name: "every",
      ...web,
      env: { TEXT: "a=b c", NUMBER: 8080, SWITCH: true, EMPTY: "", TOKEN: { secret: "token" } },
      entrypoint: ["/bin/sh", "-c"],
      command: ["exec /bin/web"],
      user: "0:0",
      workingDir: "/tmp/",
      resources: { memory: "64Mi", cpu: "0.333" },
      volumes: [
        { name: "data", path: "/data/" },
        { name: "more", path: "/more", readOnly: true },
        { hostPath: "/usr/share/", path: "/share", readOnly: true },
      ],
      ports: [
        { host: hostPort, container: 53, protocol: "udp", address: "127.0.0.1" },
        { host: hostPort, container: 9000 },
      ],
    },
    { wait: true },
  );
  await client.apps.create({ name: "plain", image: SHELL, stopGracePeriod: "1s" }, { wait: true });
  await client.apps.create({ name: "web", ...web }, { wait: true });
  const same = await replaceByHand(berth, "web", () => {});
  await berth.waitForAppReady("web");
  const names = ["every", "plain", "web"];
  const before = await Promise.all(names.map((name) => berth.container(name)));
  await berth.kill();
  await berth.start();
  for (const name of names) {
    const app = await berth.waitForAppReady(name);
    expect(conditionOf(app, "Drifted")).toBeUndefined();
  }
  const after = await Promise.all(names.map((name) => berth.container(name)));
  expect(after.map(({ id }) => id)).toEqual(before.map(({ id }) => id));
  expect(after[2]?.id).toBe(same);
  const { events } = await berth.client.events.list({ limit: 500 });
  expect(events.filter(({ reason }) => reason === "DriftCorrected")).toEqual([]);
});
