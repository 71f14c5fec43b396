import { Agent, request } from "node:http";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { ensureTestImages } from "../test/support/images.ts";
import { withServer } from "./create.ts";
import { type BenchEngine, sweep } from "./engine.ts";
import { type Figure, median, percentile, seconds } from "./report.ts";
import type { BenchServer } from "./server.ts";
import type { Target } from "./throughput.ts";
import { deployWeb, WEB_PORT, webSource } from "./web-source.ts";

const ROUNDS = 15;
/**
 * The delay between two HTTP requests that poll the app until it answers with the body of the new version. Deploys by
 * Berth and by the bare engine are polled alike.
 */
const POLL_MS = 10;
const ANSWER_LIMIT_MS = 60_000;
const APP = "deployed";
const LABELS = { "dev.berth.bench": "1" };

/** The named moments of one deploy in order, each in milliseconds since the start of the deploy. */
type Marks = ReadonlyMap<string, number>;

/**
 * Measures the time from the deploy call to the first answer of the new version through the ingress, while the previous
 * version runs. Divides it by the time in which the engine alone builds, creates and starts the same source, up to the
 * first answer of the container.
 */
export async function benchDeploy(engine: BenchEngine): Promise<Figure> {
  await ensureTestImages(engine.host);
  const berth: Marks[] = [];
  const bare: Marks[] = [];
  await withServer(
    engine,
    async (server) => {
      await deployWeb(server, APP, "first", { wait: true });
      // The first round is not counted, because it contains one-time costs.
      await bareRound(engine, "warm-up");
      for (let round = 0; round < ROUNDS; round += 1) {
        bare.push(await bareRound(engine, `bare ${round}`));
        berth.push(await berthRound(engine, server, `berth ${round}`));
      }
    },
    { ingress: "process" },
  );
  const ratios = berth.map((marks, round) => findEnd(marks) / findEnd(bare[round] ?? marks));
  const ratio = median(ratios);
  return {
    name: "deploy call to new version serving",
    value: seconds(median(berth.map(findEnd))),
    floor: `${seconds(median(bare.map(findEnd)))} bare build+create+start`,
    ratio: `${ratio.toFixed(2)} (p95 ${percentile(ratios, 0.95).toFixed(2)})`,
    aim: "<= 1.15",
    isMet: ratio <= 1.15,
    notes: [`berth: ${formatPhases(berth)}`, `bare:  ${formatPhases(bare)}`],
  };
}

async function bareRound({ docker }: BenchEngine, body: string): Promise<Marks> {
  const image = `berth.bench/deploy:${body.replaceAll(" ", "-")}`;
  const network = await docker.createNetwork({ Name: "berth-bench-deploy", Labels: LABELS });
  const source = webSource(body);
  const watch = new Stopwatch();
  const output = await docker.buildImage(Readable.from([source]), { t: image });
  await new Promise<void>((resolve, reject) => {
    docker.modem.followProgress(output, (error) => (error ? reject(error) : resolve()));
  });
  watch.mark("build");
  const container = await docker.createContainer({
    Image: image,
    Labels: LABELS,
    HostConfig: { Init: true, NetworkMode: network.id },
  });
  watch.mark("create");
  await container.start();
  watch.mark("start");
  const { NetworkSettings } = await container.inspect();
  const address = NetworkSettings.Networks["berth-bench-deploy"]?.IPAddress ?? "";
  await waitForAnswer({ address, port: WEB_PORT, name: address }, body);
  watch.mark("answer");
  await sweep(docker, "dev.berth.bench");
  await docker.getImage(image).remove({ force: true });
  return watch.marks;
}

async function berthRound(engine: BenchEngine, server: BenchServer, body: string): Promise<Marks> {
  const watch = new Stopwatch();
  await deployWeb(server, APP, body);
  watch.mark("call");
  const name = `${APP}.localhost`;
  await waitForAnswer({ address: "127.0.0.1", port: server.ingressPort, name }, body);
  const servedMs = Date.now();
  const { builds } = await server.get<{
    builds: { started_at: string; finished_at: string }[];
  }>(`/api/apps/${APP}/builds`);
  watch.markAt("until build", Date.parse(builds[0]?.started_at ?? ""));
  watch.markAt("build", Date.parse(builds[0]?.finished_at ?? ""));
  const container = await newestContainer(engine, server);
  watch.markAt("create", Date.parse(container.Created));
  watch.markAt("start", Date.parse(container.State.StartedAt));
  watch.markAt("switch and answer", servedMs);
  await waitUntilAlone(engine, server);
  return watch.marks;
}

function listContainers({ docker }: BenchEngine, { instance }: BenchServer) {
  const label = [`dev.berth.instance=${instance}`, `dev.berth.app=${APP}`];
  return docker.listContainers({ all: true, filters: { label } });
}

async function newestContainer(engine: BenchEngine, server: BenchServer) {
  const all = await listContainers(engine, server);
  const [newest] = all.toSorted((a, b) => b.Created - a.Created);
  if (!newest) throw new Error(`${APP} has no container`);
  return engine.docker.getContainer(newest.Id).inspect();
}

/** Waits until the replaced containers are deleted, so that they do not affect the next round. */
async function waitUntilAlone(engine: BenchEngine, server: BenchServer): Promise<void> {
  const end = Date.now() + ANSWER_LIMIT_MS;
  while ((await listContainers(engine, server)).length !== 1) {
    if (Date.now() > end) throw new Error(`an older version of ${APP} is not deleted`);
    await sleep(100);
  }
}

/** Waits for the first HTTP answer that has this body. */
async function waitForAnswer(place: Target, body: string): Promise<void> {
  const agent = new Agent({ keepAlive: true });
  const end = Date.now() + ANSWER_LIMIT_MS;
  try {
    while ((await ask(place, agent).catch(() => "")) !== body) {
      if (Date.now() > end) throw new Error(`"${body}" is not served by ${place.name}`);
      await sleep(POLL_MS);
    }
  } finally {
    agent.destroy();
  }
}

function ask({ address, port, name }: Target, agent: Agent): Promise<string> {
  return new Promise((resolve, reject) => {
    const outgoing = request(
      { host: address, port, agent, headers: { Host: name } },
      (response) => {
        let body = "";
        response.setEncoding("utf8").on("data", (text: string) => (body += text));
        response.once("error", reject);
        response.once("end", () => resolve(body));
      },
    );
    outgoing.once("error", reject);
    outgoing.end();
  });
}

class Stopwatch {
  readonly marks = new Map<string, number>();
  readonly #beganMs = Date.now();

  mark(name: string): void {
    this.markAt(name, Date.now());
  }

  markAt(name: string, ms: number): void {
    this.marks.set(name, ms - this.#beganMs);
  }
}

function findEnd(marks: Marks): number {
  return [...marks.values()].at(-1) ?? Number.NaN;
}

/**
 * Formats the phases of a deploy. Each phase ends at a named moment and begins at the moment before it; its duration is
 * the median of all rounds.
 */
function formatPhases(rounds: readonly Marks[]): string {
  const names = [...(rounds[0]?.keys() ?? [])];
  return names
    .map((name, index) => {
      const before = names[index - 1] ?? "";
      const took = rounds.map((marks) => (marks.get(name) ?? 0) - (marks.get(before) ?? 0));
      return `${name} ${median(took).toFixed(0)} ms`;
    })
    .join(", ");
}
