import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, type IncomingHttpHeaders, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { getProgramSearchPath } from "../../src/config/config.ts";
import type { SiteVerdict } from "../../src/controller/ingress/port.ts";
import type { AppSpec } from "../../src/resources/app-spec.ts";
import {
  type ManagedIngress,
  type OpenIngressOptions,
  openIngress,
} from "../../src/server/open-ingress.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import { FakeRuntime } from "./fake-runtime.ts";
import { freePorts } from "./free-port.ts";
import { applyResource } from "./test-store.ts";

const WAIT = { timeout: 20_000, interval: 20 };

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** The ingress of a data directory with the real Caddy. Its disposal stops Caddy. */
export class CaddyHarness implements AsyncDisposable {
  readonly dataDir: string;
  readonly httpPort: number;
  readonly httpsPort: number | undefined;
  readonly store: Store;
  readonly agent = new Agent({ keepAlive: true });
  /** The Apps that the ingress has reported as changed, in order. */
  readonly changed: string[] = [];
  /** Called with the App's name when the ingress reports a change in how it serves the App. */
  onChanged: (app: string) => void = () => {};
  ingress!: ManagedIngress;
  readonly #options: Partial<OpenIngressOptions & OpenIngressOptions["config"]>;
  #ending = new AbortController();

  private constructor(
    options: Partial<OpenIngressOptions & OpenIngressOptions["config"]> & {
      readonly dataDir: string;
      readonly httpPort: number;
    },
  ) {
    this.dataDir = options.dataDir;
    this.httpPort = options.httpPort;
    this.httpsPort = options.httpsPort;
    this.#options = options;
    this.store = openStore({ dataDir: this.dataDir, clock: systemClock, durability: "off" });
  }

  static async open(
    options: Partial<Omit<OpenIngressOptions, "config">> & {
      readonly https?: boolean;
      readonly httpPort?: number;
      readonly dataDir?: string;
      readonly ingress?: OpenIngressOptions["config"]["ingress"];
      readonly dockerHost?: string;
      readonly apiDomain?: string;
      readonly trustedProxies?: readonly string[];
      readonly ingressImage?: string;
    } = {},
  ): Promise<CaddyHarness> {
    const [httpPort = 0, httpsPort = 0] = await freePorts(2);
    const { https, dataDir, ...others } = options;
    const harness = new CaddyHarness({
      dataDir: dataDir ?? mkdtempSync(join(tmpdir(), "berth-ingress-")),
      httpPort,
      httpsPort: https ? httpsPort : undefined,
      ...others,
    });
    await harness.boot();
    return harness;
  }

  /** Starts Berth on the existing data, with other settings if they are passed. */
  async boot(config: Partial<OpenIngressOptions["config"]> = {}): Promise<void> {
    this.#ending = new AbortController();
    this.ingress = await openIngress(
      {
        store: this.store,
        runtime: new FakeRuntime({ clock: systemClock }),
        clock: systemClock,
        logger: this.#options.logger ?? silentLogger,
        onChanged: (app) => {
          this.changed.push(app);
          this.onChanged(app);
        },
        searchPath: this.#options.searchPath ?? getProgramSearchPath(),
        ...(this.#options.runtime ? { runtime: this.#options.runtime } : {}),
        config: {
          dataDir: this.dataDir,
          dockerHost: this.#options.dockerHost ?? "unix:///nowhere/docker.sock",
          ingress: this.#options.ingress ?? "process",
          ingressImage: this.#options.ingressImage ?? "caddy:2",
          httpPort: this.httpPort,
          httpsPort: this.httpsPort,
          acmeEmail: undefined,
          baseDomain: "localhost",
          apiDomain: this.#options.apiDomain,
          trustedProxies: this.#options.trustedProxies ?? [],
          ...config,
        },
      },
      this.#ending.signal,
    );
    this.ingress.start(this.#ending.signal);
  }

  /** Stops Berth; Caddy keeps running. */
  async stopBerth(): Promise<void> {
    await this.ingress[Symbol.asyncDispose]();
  }

  async waitUntilReady(): Promise<void> {
    await this.waitUntil(
      () => this.ingress.state().ready,
      () => this.ingress.state().message,
    );
  }

  apply(app: string, spec: Partial<AppSpec> = {}): void {
    applyResource(this.store, "App", app, { image: "web:1", port: 8080, ...spec });
  }

  applySecret(name: string, data: Record<string, string>): void {
    applyResource(this.store, "Secret", name, { data });
  }

  delete(app: string): void {
    this.store.delete("App", app, { actor: { name: "test" }, manager: "api" });
    const { finalizers = [] } = this.store.get("App", app)?.metadata ?? {};
    for (const finalizer of finalizers) this.store.removeFinalizer("App", app, finalizer);
  }

  /**
   * Waits until the ingress reports that it serves the App (`wanted` is true), that it does not (false), or that it
   * does not for the reason `wanted`.
   */
  async waitForVerdict(
    app: string,
    wanted: boolean | string = true,
  ): Promise<SiteVerdict | undefined> {
    await this.waitUntil(
      () => {
        const verdict = this.getVerdict(app);
        if (!verdict) return false;
        return verdict.served ? wanted === true : wanted === false || wanted === verdict.reason;
      },
      () => JSON.stringify(this.getVerdict(app)),
    );
    return this.getVerdict(app);
  }

  getVerdict(app: string): SiteVerdict | undefined {
    const resource = this.store.get("App", app);
    return resource && this.ingress.verdict(resource);
  }

  async waitUntil(condition: () => boolean | Promise<boolean>, now: () => string): Promise<void> {
    await vi.waitFor(async () => {
      if (!(await condition())) throw new Error(`not within the time; now: ${now()}`);
    }, WAIT);
  }

  get(host: string, path = "/", headers: Record<string, string> = {}): Promise<Answer> {
    return this.send({ host, path, headers });
  }

  send(options: {
    readonly host: string;
    readonly path?: string;
    readonly method?: string;
    readonly headers?: Record<string, string>;
    readonly body?: string | Buffer;
  }): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const outgoing = request(
        {
          host: "127.0.0.1",
          port: this.httpPort,
          path: options.path ?? "/",
          method: options.method ?? "GET",
          headers: { ...options.headers, Host: options.host },
          agent: this.agent,
        },
        (incoming) => {
          const chunks: Buffer[] = [];
          incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
          incoming.once("error", reject);
          incoming.once("end", () =>
            resolve({
              status: incoming.statusCode ?? 0,
              headers: incoming.headers,
              body: Buffer.concat(chunks).toString("utf8"),
            }),
          );
        },
      );
      outgoing.once("error", reject);
      outgoing.end(options.body);
    });
  }

  get caddyPid(): number {
    return Number(readFileSync(join(this.dataDir, "ingress", "caddy.pid"), "utf8"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.agent.destroy();
    await this.ingress.stop(new AbortController().signal);
    await this.store[Symbol.asyncDispose]();
    rmSync(this.dataDir, { recursive: true, force: true });
  }
}
