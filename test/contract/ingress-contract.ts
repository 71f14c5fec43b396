import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Ingress } from "../../src/controller/ingress/port.ts";
import type { Resource } from "../../src/resources/resource.ts";

/** The ingress under test, a store of Apps, and a client. */
export interface IngressHarness extends AsyncDisposable {
  readonly ingress: Ingress;
  /** Adds an App, and waits until the ingress has noticed it. */
  addApp(name: string): Promise<Resource<"App">>;
  /** The addresses of two apps that answer requests. */
  readonly targets: readonly [string, string];
  /** Sends a request for the App. Returns the target that answered, or otherwise the HTTP status. */
  ask(app: string): Promise<string | number>;
  /** Restarts Berth, and returns the ingress of the new Berth. */
  restart(): Promise<Ingress>;
  now(): number;
  /** Lets at least `ms` milliseconds pass. */
  pass(ms: number): Promise<void>;
}

/** Checks the behaviour that reconcilers rely on, for any adapter of the Ingress port. */
export function ingressContract(adapter: string, open: () => Promise<IngressHarness>): void {
  describe(`the ingress port on ${adapter}`, () => {
    let harness: IngressHarness;
    let ingress: Ingress;
    let one = "";
    let two = "";
    let count = 0;

    beforeAll(async () => {
      harness = await open();
      ({ ingress } = harness);
      [one, two] = harness.targets;
    }, 60_000);
    afterAll(async () => {
      await harness[Symbol.asyncDispose]();
    });

    async function begin(): Promise<string> {
      return (await add()).metadata.name;
    }

    function add(): Promise<Resource<"App">> {
      count += 1;
      return harness.addApp(`app-${count}`);
    }

    it("the ingress returns null for an App whose route was never written", async () => {
      const app = await begin();
      expect(await ingress.table.read(app)).toBeNull();
      expect(await harness.ask(app)).toBe(503);
    });

    it("the ingress sends requests to the last written targets as soon as the write has returned", async () => {
      const app = await begin();
      await ingress.table.write(app, { version: "v1", targets: [one] });
      expect(await harness.ask(app)).toBe(one);
      await ingress.table.write(app, { version: "v2", targets: [two] });
      expect(await harness.ask(app)).toBe(two);
      await ingress.table.write(app, { version: "v1", targets: [one] });
      expect(await harness.ask(app)).toBe(one);
      expect(await ingress.table.read(app)).toMatchObject({ version: "v1", targets: [one] });
    });

    it("the ingress returns each target of a route once, in the order in which they were written", async () => {
      const app = await begin();
      await ingress.table.write(app, { version: "v1", targets: [two, one, two] });
      expect((await ingress.table.read(app))?.targets).toEqual([two, one]);
    });

    it.each([12, 13, 50])("the ingress keeps all %i targets of a route", async (number) => {
      const app = await begin();
      const targets = Array.from({ length: number }, (_, index) => `172.18.${index}.7:8080`);
      await ingress.table.write(app, { version: "v1", targets });
      expect((await ingress.table.read(app))?.targets).toEqual(targets);
      await ingress.table.write(app, { version: "v2", targets: [one] });
      expect((await ingress.table.read(app))?.targets).toEqual([one]);
      expect(await harness.ask(app)).toBe(one);
      await ingress.table.write(app, { version: "v1", targets });
      await ingress.table.write(app, { version: "v1", targets: [] });
      expect(await harness.ask(app)).toBe(503);
    });

    it("the ingress keeps the start time of a version when the version's targets change", async () => {
      const app = await begin();
      const before = harness.now();
      await ingress.table.write(app, { version: "v1", targets: [one] });
      const first = await ingress.table.read(app);
      expect(first?.sinceMs).toBeGreaterThanOrEqual(before);
      expect(first?.sinceMs).toBeLessThanOrEqual(harness.now());
      await harness.pass(20);
      await ingress.table.write(app, { version: "v1", targets: [one] });
      await ingress.table.write(app, { version: "v1", targets: [one, two] });
      expect((await ingress.table.read(app))?.sinceMs).toBe(first?.sinceMs);
      await ingress.table.write(app, { version: "v2", targets: [one, two] });
      expect((await ingress.table.read(app))?.sinceMs).toBeGreaterThan(first?.sinceMs ?? 0);
    });

    it("the ingress answers 503 while an App has no targets, and serves the App again when it has new targets", async () => {
      const app = await begin();
      await ingress.table.write(app, { version: "v1", targets: [one] });
      await ingress.table.write(app, { version: "v1", targets: [] });
      const { sinceMs } = (await ingress.table.read(app)) ?? {};
      expect(await ingress.table.read(app)).toEqual({ version: "v1", targets: [], sinceMs });
      expect(await harness.ask(app)).toBe(503);
      await harness.pass(20);
      await ingress.table.write(app, { version: "v1", targets: [two] });
      expect(await harness.ask(app)).toBe(two);
      expect(await ingress.table.read(app)).toEqual({ version: "v1", targets: [two], sinceMs });
    });

    it("the ingress removes only the unreachable targets", async () => {
      const app = await begin();
      expect(await ingress.table.retainTargets(app, new Set([one]))).toBeNull();
      expect(await ingress.table.read(app)).toBeNull();
      await ingress.table.write(app, { version: "v1", targets: [two, one] });
      const before = await ingress.table.read(app);
      await harness.pass(20);
      expect(await ingress.table.retainTargets(app, new Set([one, two, "10.9.9.9:1"]))).toEqual(
        before,
      );
      expect(await ingress.table.retainTargets(app, new Set([one]))).toEqual({
        ...before,
        targets: [one],
      });
      expect(await ingress.table.read(app)).toEqual({ ...before, targets: [one] });
      expect(await harness.ask(app)).toBe(one);
      expect(await ingress.table.retainTargets(app, new Set())).toEqual({ ...before, targets: [] });
      expect(await harness.ask(app)).toBe(503);
    });

    it("the ingress does not change a route that another call switches at the same time", async () => {
      const app = await begin();
      await ingress.table.write(app, { version: "v1", targets: [one] });
      await Promise.all([
        ingress.table.write(app, { version: "v2", targets: [two] }),
        ingress.table.retainTargets(app, new Set([two])),
      ]);
      expect(await ingress.table.read(app)).toMatchObject({ version: "v2", targets: [two] });
      expect(await harness.ask(app)).toBe(two);
    });

    it("the ingress removes a route, and does nothing if the App has none", async () => {
      const app = await begin();
      await ingress.table.write(app, { version: "v1", targets: [one] });
      await ingress.table.remove(app);
      await ingress.table.remove(app);
      await ingress.table.remove("never-there");
      expect(await ingress.table.read(app)).toBeNull();
      expect(await harness.ask(app)).not.toBe(one);
    });

    it("the ingress keeps the routes of Apps separate", async () => {
      const [first, second] = [await begin(), await begin()];
      await ingress.table.write(first, { version: "v1", targets: [one] });
      await ingress.table.write(second, { version: "v1", targets: [two] });
      await ingress.table.remove(first);
      expect(await harness.ask(second)).toBe(two);
    });

    it("the ingress keeps the targets of exactly one of several concurrent writes", async () => {
      const app = await begin();
      await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          ingress.table.write(app, {
            version: `v${index}`,
            targets: [index % 2 === 0 ? one : two],
          }),
        ),
      );
      expect(await ingress.table.read(app)).toMatchObject({ version: "v19", targets: [two] });
      expect(await harness.ask(app)).toBe(two);
    });

    it("the ingress reports that Apps are served, and their URLs", async () => {
      const app = await add();
      const { name } = app.metadata;
      expect(ingress.state()).toMatchObject({ ready: true });
      expect(ingress.verdict(app)).toEqual({ served: true, https: false });
      expect(ingress.url(`${name}.localhost`, false, "/api")).toMatch(
        new RegExp(`^http://${name}\\.localhost(:\\d+)?/api$`),
      );
    });

    it("the ingress keeps its routes when Berth is restarted", async () => {
      const app = await begin();
      await ingress.table.write(app, { version: "v1", targets: [one, two] });
      const before = await ingress.table.read(app);
      ingress = await harness.restart();
      expect(await ingress.table.read(app)).toEqual(before);
      expect([one, two]).toContain(await harness.ask(app));
    });
  });
}
