import { compileSchema } from "../src/assistant/inference/schema-grammar/compile-schema.ts";
import { GrammarCompiler } from "../src/assistant/inference/schema-grammar/grammar-compiler.ts";
import { scalarGrammar } from "../src/assistant/inference/schema-grammar/scalar-grammar.ts";
import { silentLogger } from "../src/base/logger.ts";
import { Dice } from "../test/support/random.ts";
import { type Figure, median, percentile } from "./report.ts";

const SCHEMAS = 300;
/**
 * The number of schemas that are compiled before the measurement, so that the worker thread of GrammarCompiler runs
 * optimised code, as in normal use.
 */
const WARM_UP = 300;

/**
 * Measures the time from a schema to its grammar, including the messages to and from the worker thread of
 * GrammarCompiler, for new schemas and then for the same schemas from the cache.
 */
export async function benchGrammar(): Promise<Figure[]> {
  await using compiler = new GrammarCompiler({ logger: silentLogger });
  const dice = new Dice(1);
  const schemas = Array.from({ length: WARM_UP + SCHEMAS }, () => toolSchema(dice, 3));
  await measureTimes(compiler, schemas.slice(0, WARM_UP));
  const counted = schemas.slice(WARM_UP);
  const cold = await measureTimes(compiler, counted);
  const cached = await measureTimes(compiler, counted);
  const onCore = measureCoreTimes(schemas).slice(WARM_UP);
  return [
    figure("schema to grammar, median", median(cold), 1),
    figure("schema to grammar, 95 of 100", percentile(cold, 0.95), undefined),
    figure("schema to grammar on a core, median", median(onCore), 1),
    figure("schema to grammar on a core, 95 of 100", percentile(onCore, 0.95), undefined),
    figure("grammar out of the cache, median", median(cached), 0.2),
  ];
}

function figure(name: string, ms: number, aimMs: number | undefined): Figure {
  return {
    name,
    value: `${ms.toFixed(3)} ms`,
    floor: "-",
    ratio: "-",
    aim: aimMs === undefined ? "-" : `< ${aimMs} ms`,
    isMet: aimMs === undefined ? undefined : ms < aimMs,
  };
}

async function measureTimes(
  compiler: GrammarCompiler,
  schemas: readonly unknown[],
): Promise<number[]> {
  const { signal } = new AbortController();
  const times: number[] = [];
  for (const schema of schemas) {
    const start = performance.now();
    await compiler.compile(schema, signal);
    times.push(performance.now() - start);
  }
  return times;
}

/**
 * Measures the processor time that the compiler needs in the main thread. Other load of the machine does not affect
 * this time.
 */
function measureCoreTimes(schemas: readonly unknown[]): number[] {
  return schemas.map((schema) => {
    const before = process.cpuUsage();
    compileSchema(schema, scalarGrammar);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  });
}

const words = [
  "name",
  "title",
  "city",
  "street",
  "price",
  "count",
  "tags",
  "kind",
  "status",
  "email",
];

/**
 * Returns a schema like those of tools and extraction tasks: an object with a few properties, lists, enums and some
 * unions.
 */
function toolSchema(dice: Dice, depth: number): object {
  const names = Array.from(
    { length: dice.between(2, 7) },
    (_, index) => `${dice.pick(words)}_${index}`,
  );
  return {
    type: "object",
    properties: Object.fromEntries(names.map((name) => [name, propertySchema(dice, depth - 1)])),
    required: names.filter(() => dice.chance(0.6)),
    ...(dice.chance(0.7) && { additionalProperties: false }),
  };
}

function propertySchema(dice: Dice, depth: number): object {
  const description = "What is asked for, in a sentence or two.";
  const scalars: (() => object)[] = [
    () => ({ type: "string", description }),
    () => ({ type: "string", maxLength: dice.between(10, 200) }),
    () => ({ type: "string", format: dice.pick(["date", "date-time", "email", "uuid"]) }),
    () => ({
      type: "string",
      pattern: dice.pick(["^[a-z]+$", "^\\d{3}-\\d{4}$", "^[A-Z][a-z]*$"]),
    }),
    () => ({
      enum: Array.from(
        { length: dice.between(2, 8) },
        (_, index) => `${dice.pick(words)}-${index}`,
      ),
    }),
    () => ({ type: "integer", minimum: 0, maximum: dice.between(10, 100_000) }),
    () => ({ type: "number" }),
    () => ({ type: "boolean", description }),
    () => ({ type: ["string", "null"] }),
  ];
  const containers: (() => object)[] = [
    () => toolSchema(dice, depth),
    () => ({
      type: "array",
      items: propertySchema(dice, depth - 1),
      maxItems: dice.between(1, 20),
    }),
    () => ({ anyOf: [propertySchema(dice, depth - 1), { type: "null" }] }),
  ];
  return dice.pick(depth > 0 && dice.chance(0.3) ? containers : scalars)();
}
