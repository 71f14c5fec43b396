import { StringDecoder } from "node:string_decoder";
import type { BerthError } from "../../base/errors.ts";
import type { ReportedLayer } from "./docker-build-cancellation.ts";
import { type FailedStep, parseFromImage, toEngineBuildError } from "./docker-build-failure.ts";
import { LineAssembler, OutputTail, PullProgressLines } from "./docker-build-output.ts";
import { type BuildTrace, readTrace, type Vertex } from "./docker-build-trace.ts";
import { numberAt, textAt } from "./docker-json.ts";
import type { BuildOutput } from "./port.ts";

type Step = Omit<FailedStep, "lastLines">;

export interface BuildReaderOptions {
  readonly onOutput: (line: BuildOutput) => void;
  /** Returns the time in epoch milliseconds. */
  readonly now: () => number;
  readonly memoryBytes: number | undefined;
  readonly hasAuth: boolean;
}

/**
 * Reads the messages of a build. Reports steps and lines to its callbacks, and throws for an error. Supports the
 * messages of the classic builder and of BuildKit. (Podman always sends the classic ones.)
 */
export class BuildReader {
  readonly #options: BuildReaderOptions;
  readonly #classic: ClassicSteps;
  readonly #buildKit: BuildKitSteps;
  readonly #pulls: PullProgressLines;
  #imageId: string | undefined;
  #hasPullProgress = false;

  constructor(options: BuildReaderOptions) {
    this.#options = options;
    this.#classic = new ClassicSteps(options.onOutput);
    this.#pulls = new PullProgressLines(options.now, options.onOutput, () => {
      this.#hasPullProgress = true;
    });
    this.#buildKit = new BuildKitSteps(options.onOutput, this.#pulls);
  }

  /** The id of the image; undefined until the image is complete. */
  get imageId(): string | undefined {
    return this.#imageId;
  }

  /** True if the classic builder has begun its last step, after which it tags the image. */
  get isInLastStep(): boolean {
    const { current } = this.#classic;
    return current !== undefined && current.number === current.total;
  }

  /** The classic builder's container for the current step of the Dockerfile; undefined between steps. */
  get container(): string | undefined {
    return this.#classic.container;
  }

  /**
   * The layers that the classic builder has made, oldest first. With BuildKit the list is empty, because its cache
   * contains no images.
   */
  get layers(): readonly ReportedLayer[] {
    return this.#classic.layers;
  }

  /** Handles one message of the engine. Throws the BerthError of a failed build. */
  handleMessage(message: Readonly<Record<string, unknown>>): void {
    const failure = textAt(message, "errorDetail", "message") ?? textAt(message, "error");
    if (failure !== undefined)
      throw this.toError(failure, numberAt(message, "errorDetail", "code"));
    const aux = message["aux"];
    this.#imageId = textAt(aux, "ID") ?? this.#imageId;
    if (textAt(message, "id") === "moby.buildkit.trace" && typeof aux === "string")
      this.#buildKit.handleTrace(readTrace(Buffer.from(aux, "base64")));
    else if (typeof message["stream"] === "string") this.#classic.handleText(message["stream"]);
    else this.#handlePull(message);
  }

  /** Emits the last line of the output if the output does not end with a newline. */
  flush(): void {
    this.#classic.flush();
    this.#buildKit.flush();
  }

  /** The base image that is being looked up or pulled; undefined if none is. */
  get pull(): { readonly image: string; readonly hasProgress: boolean } | undefined {
    const image = this.#buildKit.pulledImage ?? this.#classic.pulledImage;
    if (image === undefined) this.#hasPullProgress = false;
    return image === undefined ? undefined : { image, hasProgress: this.#hasPullProgress };
  }

  /** The container of the last step that had one; undefined before such a step, and with BuildKit. */
  get lastContainer(): string | undefined {
    return this.#classic.lastContainer;
  }

  toError(text: string, exitCode?: number, cause?: unknown): BerthError {
    this.flush();
    const { memoryBytes, hasAuth } = this.#options;
    return toEngineBuildError({
      text,
      exitCode,
      step: this.#buildKit.failed ?? this.#classic.current,
      base: this.#buildKit.base,
      memoryBytes,
      hasAuth,
      cause,
    });
  }

  /** Emits a line at the start and the end of a base image's pull, and its progress at intervals. */
  #handlePull(message: Readonly<Record<string, unknown>>): void {
    const status = textAt(message, "status");
    if (status === undefined) return;
    const layer = textAt(message, "id");
    const current = numberAt(message, "progressDetail", "current");
    const total = numberAt(message, "progressDetail", "total");
    if (layer !== undefined && status === "Downloading" && current !== undefined)
      this.#pulls.updateLayer(layer, current, total ?? 0);
    else if (layer === undefined || status.startsWith("Pulling from"))
      this.#options.onOutput({ type: "log", text: status });
  }
}

/** The engine's message for a step: `Step 3/7 : RUN npm ci`; Podman writes STEP. */
const STEP = /^(?:Step|STEP) (\d+)\/(\d+) ?: (.*?)\n?$/s;
const RUNNING = /^ ---> Running in ([0-9a-f]{12,64})\n$/;
const LAYER = /^ ---> ([0-9a-f]{12,64})\n$/;
const FROM_CACHE = /^ ---> Using cache\n$/;
const REMARK = /^(?: ---> |Removing intermediate container )/;

class ClassicSteps {
  readonly #onOutput: (line: BuildOutput) => void;
  readonly #tail = new OutputTail();
  readonly #lines: LineAssembler;
  #step: Step | undefined;
  #isRemark = false;
  #isAfterStep = false;
  #isFromCache = false;
  readonly layers: ReportedLayer[] = [];
  container: string | undefined;
  lastContainer: string | undefined;

  constructor(onOutput: (line: BuildOutput) => void) {
    this.#onOutput = onOutput;
    this.#lines = new LineAssembler((text) => {
      if (!this.#isRemark) this.#tail.add(text);
      onOutput({ type: "log", text });
    });
  }

  /**
   * The image of a FROM line, until the engine has sent another message about this step. That message means that the
   * image exists.
   */
  get pulledImage(): string | undefined {
    return this.#isRemark ? undefined : this.#step && parseFromImage(this.#step.text);
  }

  get current(): FailedStep | undefined {
    return this.#step && { ...this.#step, lastLines: this.#tail.lines() };
  }

  handleText(text: string): void {
    const step = this.#parseStep(text);
    if (step) {
      this.flush();
      this.#step = step;
      this.#isRemark = false;
      this.#tail.clear();
      this.container = undefined;
      this.#onOutput({ type: "step", ...step });
    } else if (!(this.#isAfterStep && text === "\n")) {
      this.#isRemark = REMARK.test(text);
      if (this.#isRemark) {
        this.flush();
        this.container = RUNNING.exec(text)?.[1];
        this.lastContainer = this.container ?? this.lastContainer;
        this.#addLayer(text);
      }
      this.#lines.add(text);
    }
    this.#isAfterStep = step !== undefined;
  }

  flush(): void {
    this.#lines.flush();
  }

  #addLayer(text: string): void {
    const id = LAYER.exec(text)?.[1];
    const isBase = this.#step !== undefined && parseFromImage(this.#step.text) !== undefined;
    if (id !== undefined) this.layers.push({ id, isNew: !isBase && !this.#isFromCache });
    this.#isFromCache = FROM_CACHE.test(text);
  }

  /**
   * Returns the step that a line of output announces, or undefined. The step must have the next number, because a
   * command may output a line that looks like a step too.
   */
  #parseStep(text: string): Step | undefined {
    const match = STEP.exec(text);
    if (!match) return undefined;
    const number = Number(match[1]);
    const total = Number(match[2]);
    const isNext = this.#step
      ? number === this.#step.number + 1 && total === this.#step.total
      : number === 1;
    return isNext ? { number, total, text: match[3] ?? "" } : undefined;
  }
}

interface BuildKitStep {
  readonly step: Step;
  readonly prefix: string;
  readonly tail: OutputTail;
  readonly streams: Map<number, { decoder: StringDecoder; lines: LineAssembler }>;
}

/**
 * Matches `[3/7] RUN npm ci`. With several stages, it matches `[build 3/7] RUN npm ci`, which is shown as `build: RUN
 * npm ci`.
 */
const KIT_STEP = /^\[(?:(.*) )?(\d+)\/(\d+)\] (.*)$/s;
const KIT_BASE =
  /^(?:\[internal\] load metadata for |resolve image config for (?:docker-image:\/\/)?|(?:\[[^\]]*\] )?FROM )(\S+)/;

class BuildKitSteps {
  readonly #onOutput: (line: BuildOutput) => void;
  readonly #pulls: PullProgressLines;
  readonly #running = new Map<string, BuildKitStep>();
  /** The digests of vertices for which everything has been reported. */
  readonly #done = new Set<string>();
  /** The base images that are being looked up or pulled, by the digests of their vertices. */
  readonly #pulled = new Map<string, string>();
  failed: FailedStep | undefined;
  /** The base image whose lookup failed. */
  base: string | undefined;

  constructor(onOutput: (line: BuildOutput) => void, pulls: PullProgressLines) {
    this.#onOutput = onOutput;
    this.#pulls = pulls;
  }

  get pulledImage(): string | undefined {
    return [...this.#pulled.values()][0];
  }

  handleTrace({ vertices, logs, statuses, warnings }: BuildTrace): void {
    for (const vertex of vertices) {
      if (vertex.isStarted) this.#begin(vertex);
      // A cached vertex has no log lines, so it is completed before the lines of this message are handled. An executed
      // vertex may have lines in this message, so it is completed after them.
      if (vertex.isCompleted && vertex.isCached) this.#complete(vertex);
    }
    for (const { vertex, stream, text } of logs) this.#log(vertex, stream, text);
    for (const { id, current, total } of statuses) this.#pulls.updateLayer(id, current, total);
    for (const text of warnings) this.#onOutput({ type: "log", text: `warning: ${text}` });
    for (const vertex of vertices) if (vertex.isCompleted) this.#complete(vertex);
  }

  flush(): void {
    for (const { streams } of this.#running.values())
      for (const { lines } of streams.values()) lines.flush();
  }

  #begin(vertex: Vertex): void {
    if (this.#done.has(vertex.digest) || this.#running.has(vertex.digest)) return;
    const base = KIT_BASE.exec(vertex.name)?.[1];
    if (base !== undefined && base !== "scratch") this.#pulled.set(vertex.digest, base);
    const match = KIT_STEP.exec(vertex.name);
    if (!match) return;
    const [, stage, number, total, text] = match;
    const step = {
      number: Number(number),
      total: Number(total),
      text: stage === undefined ? (text ?? "") : `${stage}: ${text}`,
    };
    this.#running.set(vertex.digest, {
      step,
      prefix: `[${stage === undefined ? "" : `${stage} `}${number}/${total}] `,
      tail: new OutputTail(),
      streams: new Map(),
    });
    this.#onOutput({ type: "step", ...step });
  }

  #log(digest: string, stream: number, bytes: Uint8Array): void {
    const running = this.#running.get(digest);
    if (!running) return;
    let output = running.streams.get(stream);
    if (!output) {
      const lines = new LineAssembler((text) => {
        running.tail.add(text);
        // If stages are built concurrently, each line gets a prefix that names its stage.
        const prefix = this.#running.size > 1 ? running.prefix : "";
        this.#onOutput({ type: "log", text: `${prefix}${text}` });
      });
      output = { decoder: new StringDecoder("utf8"), lines };
      running.streams.set(stream, output);
    }
    output.lines.add(output.decoder.write(Buffer.from(bytes)));
  }

  #complete({ digest, name, isCached: cached, error }: Vertex): void {
    if (this.#done.has(digest)) return;
    this.#done.add(digest);
    this.#pulled.delete(digest);
    const running = this.#running.get(digest);
    for (const { lines } of running?.streams.values() ?? []) lines.flush();
    this.#running.delete(digest);
    if (running && cached) this.#onOutput({ type: "log", text: " ---> Using cache" });
    // Only the first error is kept: it is the cause, and BuildKit then cancels concurrent vertices, which fail too.
    if (
      error === "" ||
      this.failed ||
      this.base !== undefined ||
      error.endsWith("context canceled")
    )
      return;
    this.base = KIT_BASE.exec(name)?.[1];
    if (running) this.failed = { ...running.step, lastLines: running.tail.lines() };
  }
}
