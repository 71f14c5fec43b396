import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AssistantError } from "../../../../../src/assistant/assistant-error.ts";
import { EnforceableSchemas } from "../../../../../src/assistant/overlay/agent-pass/enforceable-schemas.ts";
import type { ToolCandidate } from "../../../../../src/assistant/overlay/agent-pass/tool-candidates.ts";

function candidate(index: number): ToolCandidate {
  return {
    name: `app/tool${index}`,
    appId: "app",
    tool: `tool${index}`,
    tier: "read",
    description: "",
    inputSchema: { type: "object" },
    digest: `digest ${index}`,
  };
}

const eight = Array.from({ length: 8 }, (_, index) => candidate(index));

/** A fake engine. It refuses a set of tools if the schema of one is unsupported, or if there are too many schemas. */
class Engine {
  asked = 0;
  readonly #odd: ReadonlySet<number>;
  readonly #atOnce: number;

  constructor(odd: readonly number[], atOnce = 8) {
    this.#odd = new Set(odd);
    this.#atOnce = atOnce;
  }

  ask = async (enforced: ReadonlySet<ToolCandidate>): Promise<readonly number[]> => {
    this.asked += 1;
    const indices = [...enforced].map((one) => eight.indexOf(one)).toSorted((a, b) => a - b);
    if (indices.length > this.#atOnce || indices.some((index) => this.#odd.has(index)))
      throw new AssistantError("unsupported_schema", "no grammar");
    return indices;
  };
}

/** Rejects every request, like an engine that cannot enforce any schema. */
async function refusal(): Promise<never> {
  throw new AssistantError("unsupported_schema", "no grammar");
}

describe("schemas of tools that the engine may not support", () => {
  it("are all enforced if all are supported", async () => {
    const engine = new Engine([]);
    expect(await new EnforceableSchemas().ask(eight, engine.ask)).toHaveLength(8);
    expect(engine.asked).toBe(1);
  });

  it("are enforced except the unsupported one, whose refusal is cached", async () => {
    const schemas = new EnforceableSchemas();
    const engine = new Engine([6]);
    for (let step = 0; step < 4; step += 1) await schemas.ask(eight, engine.ask);
    const before = engine.asked;
    expect(await schemas.ask(eight, engine.ask)).toEqual([0, 1, 2, 3, 4, 5, 7]);
    expect(engine.asked).toBe(before + 1);
    const changed = { ...candidate(6), digest: "another" };
    await schemas.ask([...eight.slice(0, 6), changed], engine.ask);
    expect(engine.asked).toBe(before + 2);
  });

  it("cause at most six refusals by the engine for each model call, and each model call gets an answer", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.subarray([0, 1, 2, 3, 4, 5, 6, 7]),
        fc.integer({ min: 1, max: 8 }),
        async (odd, atOnce) => {
          const schemas = new EnforceableSchemas();
          const engine = new Engine(odd, atOnce);
          let last: readonly number[] = [];
          for (let step = 0; step < 12; step += 1) {
            const before = engine.asked;
            last = await schemas.ask(eight, engine.ask);
            expect(engine.asked - before).toBeLessThanOrEqual(7);
          }
          if (atOnce === 8) expect(last).toHaveLength(8 - odd.length);
        },
      ),
      { numRuns: 200 },
    );
  });

  it("cause no second try if the engine refuses for another reason, and the error is rethrown", async () => {
    await expect(new EnforceableSchemas().ask(eight, refusal)).rejects.toMatchObject({
      code: "unsupported_schema",
    });
    let asked = 0;
    const fail = async () => {
      asked += 1;
      throw new AssistantError("queue_full", "later");
    };
    await expect(new EnforceableSchemas().ask(eight, fail)).rejects.toMatchObject({
      code: "queue_full",
    });
    expect(asked).toBe(1);
  });
});
