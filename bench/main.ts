import { benchAgent } from "./agent.ts";
import { benchBus } from "./bus.ts";
import { benchCompanion } from "./companion.ts";
import { benchCreate, withServer, writeApps } from "./create.ts";
import { benchDeploy } from "./deploy.ts";
import { benchDownload } from "./download.ts";
import { benchEngine } from "./engine.ts";
import { benchGrammar } from "./grammar.ts";
import { benchIdle, benchList, benchReapply } from "./idle.ts";
import { benchInference } from "./inference/inference.ts";
import { benchIngress } from "./ingress.ts";
import { benchLedger } from "./ledger.ts";
import { benchAppList } from "./list.ts";
import { benchModelStart } from "./model-start.ts";
import { benchProgramStart } from "./program-start.ts";
import { benchRecover } from "./recover.ts";
import { type Figure, printReport } from "./report.ts";
import { benchSave } from "./save.ts";
import { measureCosineWeight } from "./search/cosine-weight.ts";
import { benchTools } from "./search/tools.ts";
import { benchSearch } from "./search.ts";
import { benchSoak } from "./soak.ts";
import { benchUpload } from "./upload.ts";

/**
 * Runs the benchmarks (`npm run bench`) and compares each figure with a floor that is measured in the same run. Needs
 * `npm run build` and a container engine; `deploy` and `ingress` need the program `caddy`, and `ingress` also measures
 * `kamal-proxy`, if it is installed.
 *
 * Arguments select benchmarks. These need an engine: create, save, deploy, ingress, upload, list and apps. These do
 * not: ledger, agent, bus, companion, grammar, inference, search, tools, download and start. ledger=1000000 sets the
 * number of verified entries, search=20000 the number of passages, tools=FILE an embedding model in a GGUF file,
 * companion=2000 the number of turns, and inference=tiny selects one model. soak=600 (seconds) and vectors=FILE, an embedding
 * model in a GGUF file, only run if they are named.
 */

const wanted = new Map(
  process.argv.slice(2).map((word) => [word.split("=")[0], word.split("=")[1]]),
);
const runs = (name: string) => wanted.size === 0 || wanted.has(name);
const withoutEngine = new Set<string | undefined>([
  "ledger",
  "agent",
  "bus",
  "companion",
  "grammar",
  "inference",
  "model-start",
  "download",
  "search",
  "start",
  "vectors",
  "tools",
]);
const figures: Figure[] = [];

try {
  if (runs("ledger")) figures.push(...(await benchLedger(Number(wanted.get("ledger") ?? 100_000))));
  if (runs("agent")) figures.push(...(await benchAgent()));
  if (runs("bus")) figures.push(await benchBus());
  if (runs("companion"))
    figures.push(...(await benchCompanion(Number(wanted.get("companion") ?? 10_000))));
  if (runs("inference")) figures.push(...(await benchInference(wanted.get("inference"))));
  if (runs("model-start")) figures.push(...(await benchModelStart()));
  if (runs("download")) figures.push(...(await benchDownload()));
  if (runs("start")) figures.push(await benchProgramStart());
  if (runs("grammar")) figures.push(...(await benchGrammar()));
  if (runs("tools")) figures.push(...(await benchTools(wanted.get("tools"))));
  if (runs("search")) figures.push(...(await benchSearch(Number(wanted.get("search") ?? 100_000))));
  const embeddingModel = wanted.get("vectors");
  if (embeddingModel !== undefined) figures.push(await measureCosineWeight(embeddingModel));
  if (wanted.size === 0 || [...wanted.keys()].some((name) => !withoutEngine.has(name))) {
    await benchWithEngine();
  }
} finally {
  // If a benchmark fails, the figures that precede the failure are printed nevertheless.
  printReport(figures);
}

async function benchWithEngine(): Promise<void> {
  await using engine = await benchEngine();
  if (runs("create")) figures.push(await benchCreate(engine));
  if (runs("save")) figures.push(await benchSave(engine));
  if (runs("deploy")) figures.push(await benchDeploy(engine));
  if (runs("ingress")) figures.push(...(await benchIngress(engine)));
  if (runs("upload")) figures.push(...(await benchUpload(engine)));
  if (runs("list")) figures.push(await benchAppList(engine));
  if (wanted.has("soak")) figures.push(await benchSoak(engine, Number(wanted.get("soak") ?? 600)));
  if (runs("apps")) {
    await withServer(engine, async (server) => {
      await writeApps(server, engine, 100);
      await server.untilReady(100, 300_000);
      figures.push(await benchList(server, engine, 100));
      await writeApps(server, engine, 100, 100);
      await server.untilReady(200, 300_000);
      figures.push(...(await benchIdle(server, 200)));
      figures.push(await benchReapply(server, 200));
      figures.push(await benchRecover(server, engine, 0));
    });
  }
}
