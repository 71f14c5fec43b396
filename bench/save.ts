import { writeFile } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { BenchEngine } from "./engine.ts";
import { sweep } from "./engine.ts";
import { type Figure, percentile } from "./report.ts";
import { BenchServer } from "./server.ts";

const SAVES = 40;

/**
 * Measures the time from saving a file to the first bytes of a call to the engine. A relay on the engine's socket sees
 * these bytes.
 */
export async function benchSave(engine: BenchEngine): Promise<Figure> {
  const socket = join(tmpdir(), `berth-bench-${process.pid}.sock`);
  let onCall: (at: number) => void = () => {};
  const relay = await relayTo(engine.host.replace("unix://", ""), socket, () =>
    onCall(performance.now()),
  );
  try {
    await using server = await BenchServer.start(`unix://${socket}`);
    const took: number[] = [];
    for (let save = 0; save < SAVES; save += 1) {
      await sleep(150 + Math.random() * 200);
      const name = `save-${save}`;
      const text = `apiVersion: berth.dev/v1\nkind: App\nmetadata: { name: ${name} }\nspec: { image: "${engine.image}", port: ${engine.port}, running: false }\n`;
      const called = new Promise<number>((resolve) => {
        onCall = resolve;
      });
      await writeFile(join(server.specsDir, `${name}.yaml`), text);
      const saved = performance.now();
      took.push(Math.max(0, (await called) - saved));
      onCall = () => {};
    }
    await sweep(engine.docker, `dev.berth.instance=${server.instance}`);
    const p95 = percentile(took, 0.95);
    return {
      name: "file saved to first engine call, p95",
      value: `${p95.toFixed(0)} ms`,
      floor: "-",
      ratio: "-",
      aim: "< 150 ms",
      isMet: p95 < 150,
    };
  } finally {
    relay.close();
  }
}

async function relayTo(target: string, path: string, onRequest: () => void): Promise<Server> {
  const server = createServer((client) => {
    const engine = connect(target);
    client.on("data", onRequest);
    client.pipe(engine).pipe(client);
    client.on("error", () => engine.destroy());
    engine.on("error", () => client.destroy());
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return server;
}
