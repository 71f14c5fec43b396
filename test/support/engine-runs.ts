import { appendFile, mkdir, readdir, readFile, rm } from "node:fs/promises";
import path from "node:path";
import type Docker from "dockerode";
import { privateEngineDir, privateEngineHost } from "../../scripts/engine.mjs";
import { INSTANCE } from "../../src/controller/labels.ts";
import { connectTo, TEST_LABEL } from "./engine-client.ts";

/**
 * The folder with one file per active test run. The file is named after the run's process id and lists the instances
 * that the run created.
 */
const runsDir = path.join(privateEngineDir(), "runs");

let users = 0;

/** Registers this run, and removes the engine objects of runs whose process has exited. */
export async function beginRun(host: string): Promise<void> {
  await mkdir(runsDir, { recursive: true });
  users += 1;
  // Test files run in child processes, in which trackInstance and testLabels identify the run by this variable.
  process.env["BERTH_TEST_RUN"] = String(process.pid);
  await appendFile(runFile(process.pid), "");
  for (const pid of await deadRuns()) await sweepRun(host, pid);
}

/**
 * Removes the engine objects of this run. If no other run is active on the private engine, removes the objects of
 * all runs.
 */
export async function endRun(host: string): Promise<void> {
  users -= 1;
  if (users > 0) return;
  await sweepRun(host, process.pid);
}

/** Records an instance of Berth that uses the tests' engine, so that its containers are removed after the run. */
export async function trackInstance(instance: string): Promise<void> {
  const owner = process.env["BERTH_TEST_RUN"] ?? String(process.pid);
  await mkdir(runsDir, { recursive: true });
  await appendFile(runFile(Number(owner)), `${instance}\n`);
}

async function sweepRun(host: string, pid: number): Promise<void> {
  const file = runFile(pid);
  const instances = (await readFile(file, "utf8").catch(() => "")).split("\n").filter(Boolean);
  await rm(file, { force: true });
  const docker = connectTo(host);
  for (const instance of new Set(instances)) await sweep(docker, `${INSTANCE}=${instance}`);
  await sweep(docker, `${TEST_LABEL}=${pid}`);
  const others = (await readdir(runsDir)).length;
  if (host === privateEngineHost() && others === 0) {
    await sweep(docker, INSTANCE);
    await sweep(docker, TEST_LABEL);
  }
}

async function deadRuns(): Promise<number[]> {
  const pids = (await readdir(runsDir)).map(Number);
  return pids.filter((pid) => !alive(pid));
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function runFile(pid: number): string {
  return path.join(runsDir, String(pid));
}

/** Removes the containers, networks, volumes and images that have a label (`key` or `key=value`). */
export async function sweep(docker: Docker, label: string): Promise<void> {
  const filters = { label: [label] };
  const containers = await docker.listContainers({ all: true, filters });
  await Promise.all(
    containers.map((it) => gone(docker.getContainer(it.Id).remove({ force: true, v: true }))),
  );
  const networks = await docker.listNetworks({ filters });
  await Promise.all(networks.map((it) => gone(docker.getNetwork(it.Id).remove())));
  const { Volumes: volumes } = await docker.listVolumes({ filters });
  await Promise.all((volumes ?? []).map((it) => gone(docker.getVolume(it.Name).remove())));
  const images = label.startsWith(INSTANCE)
    ? await builtImages(docker, label.slice(INSTANCE.length + 1))
    : await docker.listImages({ filters });
  await Promise.all(images.map((it) => gone(docker.getImage(it.Id).remove({ force: true }))));
}

/** Returns the images that one instance built, or those of all instances if `instance` is empty. */
async function builtImages(docker: Docker, instance: string): Promise<Docker.ImageInfo[]> {
  const images = await docker.listImages();
  const tag = new RegExp(`^berth-${instance === "" ? "[0-9a-f]{8}" : instance}/`);
  return images.filter(({ RepoTags }) => (RepoTags ?? []).some((name) => tag.test(name)));
}

/**
 * Ignores that an object could not be removed: another run may remove the same object, and the next sweep tries
 * again.
 */
async function gone(removal: Promise<unknown>): Promise<void> {
  await removal.catch(() => {});
}
