import type { Readable } from "node:stream";
import type Docker from "dockerode";
import * as labels from "../../src/controller/labels.ts";

interface EngineEvent {
  readonly Action?: string;
  readonly Actor?: { readonly ID?: string; readonly Attributes?: Readonly<Record<string, string>> };
}

/** Records the events of one app's containers on the engine, from the moment when `open` is called. */
export class EngineHistory implements AsyncDisposable {
  readonly #stream: Readable;
  readonly #running = new Map<string, string>();
  readonly #overlaps: string[] = [];
  #rest = "";
  #starts = 0;

  static async open(docker: Docker, instance: string): Promise<EngineHistory> {
    const label = [`${labels.INSTANCE}=${instance}`];
    const stream = await docker.getEvents({ filters: { type: ["container"], label } });
    return new EngineHistory(stream);
  }

  private constructor(stream: NodeJS.ReadableStream) {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- docker-modem hands out an IncomingMessage
    this.#stream = stream as Readable;
    this.#stream.setEncoding("utf8");
    this.#stream.on("error", () => {});
    this.#stream.on("data", (text: string) => {
      const lines = (this.#rest + text).split("\n");
      this.#rest = lines.pop() ?? "";
      for (const line of lines) if (line.trim() !== "") this.#take(JSON.parse(line));
    });
  }

  /** Lists the moments at which two versions ran concurrently. */
  get overlaps(): readonly string[] {
    return this.#overlaps;
  }

  get starts(): number {
    return this.#starts;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stream.destroy();
  }

  #take({ Action, Actor }: EngineEvent): void {
    const id = Actor?.ID ?? "";
    if (Action === "die") this.#running.delete(id);
    if (Action !== "start") return;
    this.#starts += 1;
    const app = Actor?.Attributes?.[labels.APP] ?? "";
    const version = `${app} ${Actor?.Attributes?.[labels.SPEC_HASH] ?? ""}`;
    for (const other of this.#running.values()) {
      if (other !== version && other.startsWith(`${app} `))
        this.#overlaps.push(`${version} started while ${other} ran`);
    }
    this.#running.set(id, version);
  }
}
