import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ApiError } from "../../src/client/rest/api-error.ts";
import type { AppWriteResult } from "../../src/client/rest/app-calls.ts";
import type { AppDetails } from "../../src/resources/wire/apps.ts";
import { appFile, BerthProcess, fetchText } from "../support/berth-process.ts";
import { SHELL, WEB, WEB_2 } from "../support/images.ts";

const web = { image: WEB, port: 8080, stopGracePeriod: "1s" } as const;

function startedAt(app: AppDetails): number {
  return Date.parse(app.containers[0]?.started_at ?? "");
}

function written(write: AppWriteResult): AppDetails {
  if (write.dryRun) throw new Error("it was a dry run");
  return write.app;
}

test("a spec file creates a container that answers, a change of the file replaces it, and the file's removal removes it", async () => {
  await using berth = await BerthProcess.open({
    specs: {
      "hello.yaml": [
        "# a comment, as people write them",
        "apiVersion: berth.dev/v1",
        "kind: App",
        "metadata: { name: hello, labels: { team: web } }",
        "spec:",
        `  image: ${WEB}`,
        "  port: 8080",
        "  env: { BODY: first, LOG: the first one speaks }",
        "  stopGracePeriod: 1s",
        "",
      ].join("\n"),
      // Berth prunes nothing while the specs folder is empty, so the folder contains a second file.
      "other.yaml": appFile("other", { image: SHELL, running: false }),
    },
  });
  const first = await berth.waitForAppReady("hello");
  expect(first).toMatchObject({ status: "running", managed_by: "file:hello.yaml", generation: 1 });
  expect(await fetchText(first.url)).toBe("first\n");

  await berth.write("hello.yaml", appFile("hello", { ...web, env: { BODY: "second" } }));
  const second = await berth.waitForAppReady("hello", (app) => app.generation === 2);
  expect(await fetchText(second.url)).toBe("second\n");
  expect(second.containers).toHaveLength(1);
  expect(second.containers[0]?.id).not.toBe(first.containers[0]?.id);
  expect(await berth.containers("hello")).toHaveLength(1);

  const logs = await berth.client.apps.logText("hello");
  expect(logs).toContain("the first one speaks");
  const reasons = second.events.map((event) => event.reason);
  expect(reasons).toEqual(expect.arrayContaining(["SpecApplied", "Ready"]));

  // Saving the same content again is not a change.
  await berth.write("hello.yaml", appFile("hello", { ...web, env: { BODY: "second" } }));
  const diff = await berth.cli(["diff", "-f", join(berth.specsDir, "hello.yaml")]);
  expect(diff).toMatchObject({ code: 0, stdout: "" });

  await berth.remove("hello.yaml");
  await berth.waitUntilAppGone("hello");
  expect(await berth.containers()).toEqual([]);
  await berth.event("Pruned", { kind: "App", name: "hello" });
});

test("API and CLI change an app that a file declares; changing the file's fields requires force", async () => {
  await using berth = await BerthProcess.open({
    specs: { "hello.yaml": appFile("hello", { ...web, env: { BODY: "from the file" } }) },
  });
  const { client } = berth;
  const first = await berth.waitForAppReady("hello");

  // The file does not set the replicas, so the API may set them; scaling up replaces no container.
  const scaled = written(await client.apps.patch("hello", { replicas: 2 }, { wait: true }));
  expect(scaled).toMatchObject({ ready: true, status: "running" });
  expect(scaled.containers.map(({ id }) => id)).toContain(first.containers[0]?.id);
  expect(await berth.containers("hello")).toHaveLength(2);
  for (const { address } of scaled.containers)
    expect(await fetchText(`http://${address}`)).toBe("from the file\n");
  written(await client.apps.patch("hello", { replicas: 1 }, { wait: true }));
  expect(await berth.containers("hello")).toHaveLength(1);

  const stopped = await berth.cli(["stop", "hello", "--wait"]);
  expect(stopped).toMatchObject({ code: 0, stderr: "" });
  expect((await berth.containers("hello")).map(({ State }) => State)).toEqual(["exited"]);
  expect(await fetchText(first.url)).toBeUndefined();
  expect(written(await client.apps.stop("hello")).status).toBe("stopped");
  expect((await client.apps.list({ status: "stopped" })).total).toBe(1);
  const started = written(await client.apps.start("hello", { wait: true }));
  expect(await fetchText(started.url)).toBe("from the file\n");
  expect(started.containers[0]?.id).toBe(first.containers[0]?.id);

  const restarted = written(await client.apps.restart("hello", { wait: true }));
  expect(restarted.containers[0]?.id).not.toBe(first.containers[0]?.id);

  const refused = await client.apps.deploy("hello", { image: WEB_2 }).catch((error) => error);
  expect(refused).toBeInstanceOf(ApiError);
  expect(refused).toMatchObject({ status: 409 });
  expect(String(refused)).toMatch(/hello\.yaml/);
  expect(String(refused)).toMatch(/image/);
  const refusedCli = await berth.cli(["deploy", "hello", "--image", WEB_2]);
  expect(refusedCli).toMatchObject({ code: 1, stdout: "" });
  expect(refusedCli.stderr).toContain("hello.yaml");

  const deployed = written(
    await client.apps.deploy("hello", { image: WEB_2 }, { force: true, wait: true }),
  );
  expect(deployed).toMatchObject({ image: WEB_2, ready: true });
  expect(await fetchText(deployed.url)).toBe("from the file\n");
  // The text of the file has not changed, so the file does not take the forced field back.
  expect((await client.specs()).files[0]?.resources[0]?.yielded).toEqual(["/spec/image"]);

  await berth.write("hello.yaml", appFile("hello", { ...web, env: { BODY: "the file again" } }));
  const again = await berth.waitForAppReady("hello", (app) => app.image === WEB);
  expect(await fetchText(again.url)).toBe("the file again\n");

  const audit = await client.events.audit({ kind: "App", name: "hello" });
  expect(new Set(audit.entries.map(({ actor }) => actor))).toContain("file:hello.yaml");
});

test("diff and apply return the documented exit codes, and apply changes nothing if one manifest is invalid", async () => {
  await using berth = await BerthProcess.open();
  const file = join(berth.root, "app.yaml");
  await writeFile(file, appFile("hello", { ...web, env: { BODY: "applied" } }));

  const before = await berth.cli(["diff", "-f", file]);
  expect(before.code).toBe(1);
  expect(before.stdout).toMatch(/app\/hello \(new\)[\s\S]*createContainer/);
  expect((await berth.client.apps.list()).total).toBe(0);

  const applied = await berth.cli(["apply", "-f", file, "--wait"]);
  expect(applied).toMatchObject({ code: 0, stderr: "" });
  expect(applied.stdout).toContain("app/hello created");
  const app = await berth.app("hello");
  expect(app.managed_by).toBe("cli");
  expect(await fetchText(app.url)).toBe("applied\n");
  expect((await berth.cli(["diff", "-f", file])).code).toBe(0);
  expect((await berth.cli(["apply", "-f", file])).stdout).toContain("unchanged");

  // Neither manifest is applied, because one of them is wrong.
  await writeFile(
    file,
    `${appFile("hello", { ...web, env: { BODY: "half" } })}---\napiVersion: berth.dev/v1\nkind: App\nmetadata: { name: other }\nspec: { image: ${WEB}, prot: 80 }\n`,
  );
  const wrong = await berth.cli(["apply", "-f", file]);
  expect(wrong.code).toBe(1);
  expect(wrong.stderr).toMatch(/app\.yaml.*prot.*port/s);
  expect((await berth.cli(["diff", "-f", file])).code).toBe(2);
  expect((await berth.app("hello")).generation).toBe(app.generation);

  expect((await berth.cli(["apply"])).code).toBe(2);
  expect((await berth.cli(["get", "app", "nobody"])).code).toBe(1);
  const late = await berth.cli(["stop", "hello"]);
  expect(late.code).toBe(0);
  const slow = join(berth.root, "slow.yaml");
  await writeFile(slow, appFile("slow", { ...web, env: { LISTEN_AFTER: "60" } }));
  const timedOut = await berth.cli(["apply", "-f", slow, "--wait", "--timeout", "1s"]);
  expect(timedOut.code).toBe(3);
  expect((await berth.cli(["delete", "slow", "hello", "--wait"])).code).toBe(0);
  expect(await berth.containers()).toEqual([]);
});

test("volumes remain after the deletion of their app, unless the user asks for their deletion", async () => {
  await using berth = await BerthProcess.open();
  const { client } = berth;
  const volumes = async () =>
    (
      await berth.docker.listVolumes({
        filters: { label: [`dev.berth.instance=${berth.instance}`, "dev.berth.app"] },
      })
    ).Volumes.map(({ Name }) => Name);
  const make = () =>
    client.apps.create(
      { name: "keeper", ...web, volumes: [{ name: "data", path: "/data" }] },
      { wait: true },
    );
  const run = async (command: string) => {
    const container = await berth.container("keeper");
    const exec = await container.exec({ Cmd: ["sh", "-c", command], AttachStdout: true });
    const stream = await exec.start({});
    let text = "";
    for await (const chunk of stream) text += String(chunk);
    return text;
  };
  await make();
  await run("echo precious > /data/file");
  written(await client.apps.patch("keeper", { env: { BODY: "new" } }, { wait: true }));
  expect(await run("cat /data/file")).toContain("precious");

  await client.apps.delete("keeper");
  expect(await client.apps.waitDeleted("keeper", { timeoutMs: 30_000 })).toBe(true);
  expect(await volumes()).toHaveLength(1);
  await make();
  expect(await run("cat /data/file")).toContain("precious");

  const dry = await client.apps.delete("keeper", { deleteVolumes: true, dryRun: true });
  expect(dry.dryRun && dry.report.message).toMatch(/delete its 1 named volume/);
  const gone = await berth.cli(["delete", "keeper", "--volumes", "--yes", "--wait"]);
  expect(gone).toMatchObject({ code: 0, stderr: "" });
  expect(await volumes()).toEqual([]);
  expect(await berth.containers()).toEqual([]);
});

test("events and logs can be followed while they are written", async () => {
  await using berth = await BerthProcess.open();
  const ended = new AbortController();
  const seen: string[] = [];
  const following = (async () => {
    for await (const change of berth.client.events.watch({ signal: ended.signal }))
      if (!change.reset) seen.push(`${change.type} ${change.name} ${change.event?.reason ?? ""}`);
  })().catch(() => {});
  await berth.client.apps.create(
    { name: "hello", ...web, env: { LOG: "line one" } },
    { wait: true },
  );
  const lines: string[] = [];
  const reading = (async () => {
    for await (const { message } of berth.client.apps.followLogs("hello", { signal: ended.signal }))
      lines.push(message);
  })().catch(() => {});
  await berth.until("the first line is read", () => lines.includes("line one"));
  await berth.client.apps.patch("hello", { env: { LOG: "line two" } }, { wait: true });
  await berth.until("the second container's line is read", () => lines.includes("line two"));
  expect(lines.filter((line) => line === "line one")).toHaveLength(1);
  await berth.client.apps.delete("hello");
  await berth.until("the deletion is told", () =>
    seen.some((text) => text.startsWith("deleted hello")),
  );
  expect(seen[0]).toBe("added hello ");
  expect(seen).toContain("event hello Ready");
  ended.abort();
  await Promise.all([following, reading]);
  // The CLI lists the events of deleted resources too.
  const events = await berth.cli(["events"]);
  expect(events.code).toBe(0);
  expect(events.stdout).toContain("Deleted");
});

test("the files in the specs folder are applied before berth up prints its ready line", async () => {
  await using berth = await BerthProcess.open({
    specs: {
      "a.yaml": appFile("one", { ...web, dependsOn: ["two"] }),
      "deep/er/b.json": appFile("two", web),
    },
  });
  expect((await berth.client.specs()).files.map(({ file, state }) => `${file} ${state}`)).toEqual([
    "a.yaml applied",
    "deep/er/b.json applied",
  ]);
  const one = await berth.waitForAppReady("one");
  const two = await berth.waitForAppReady("two");
  expect(startedAt(two)).toBeLessThan(startedAt(one));
  // An app reaches the other apps of its instance by their names.
  const container = await berth.container("one");
  const exec = await container.exec({
    Cmd: ["wget", "-q", "-O", "-", "http://two:8080/"],
    AttachStdout: true,
  });
  let text = "";
  for await (const chunk of await exec.start({})) text += String(chunk);
  expect(text).toContain("web:1");
  await rm(join(berth.specsDir, "deep"), { recursive: true });
  await berth.waitUntilAppGone("two");
  await berth.waitForApp("one", "one waits for two", (app) => /two/.test(app.message) || app.ready);
});
