import { Environment, Interpreter, parse, tokenize } from "@huggingface/jinja";
import { LRUCache } from "lru-cache";
import { runWithTimeLimit } from "./run-with-time-limit.ts";
import { strftime } from "./strftime.ts";
import { probeTemplate, type TemplateCapabilities } from "./template-capabilities.ts";

/** Rendering takes a millisecond; a template that takes so long does not end. */
const RENDER_MS_MAX = 2_000;

/** Templates of models in use; each is some kilobytes. */
const CACHED_TEMPLATES_MAX = 16;
const templateCache = new LRUCache<string, CompiledTemplate>({ max: CACHED_TEMPLATES_MAX });

/** A template that has been parsed, and the answers to what it can do. */
export class CompiledTemplate {
  readonly source: string;
  readonly #program: ReturnType<typeof parse>;
  #capabilities: TemplateCapabilities | undefined;

  private constructor(source: string) {
    this.source = source;
    this.#program = parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }));
  }

  /** Parsed once. Throws what the parser throws. */
  static compile(source: string): CompiledTemplate {
    const found = templateCache.get(source);
    if (found !== undefined) return found;
    const made = runWithTimeLimit(() => new CompiledTemplate(source), RENDER_MS_MAX);
    templateCache.set(source, made);
    return made;
  }

  /** Throws TimeLimitError. */
  get capabilities(): TemplateCapabilities {
    this.#capabilities ??= probeTemplate(this.source, (variables) => this.render(variables, 0));
    return this.#capabilities;
  }

  /** Throws TemplateRefusal where the template raises one, TimeLimitError, and what fails in it. */
  render(variables: Readonly<Record<string, unknown>>, nowMs: number): string {
    return runWithTimeLimit(() => {
      const environment = new Environment();
      // One after the other: a variable of a request that has the name of a helper is refused.
      for (const names of [
        constants,
        createHelpers(nowMs),
        { ...defaultVariables, ...variables },
      ]) {
        for (const [name, value] of Object.entries(names)) environment.set(name, value);
      }
      const result: unknown = new Interpreter(environment).run(this.#program).value;
      return typeof result === "string" ? result : String(result);
    }, RENDER_MS_MAX);
  }
}

/** What the template itself says is wrong with the conversation. */
export class TemplateRefusalError extends Error {}

const constants = { true: true, false: false, none: null, True: true, False: false, None: null };

/** Models that can think do so unless they are told not to; templates differ in what they take for said. */
const defaultVariables = { enable_thinking: true };

/** More rounds than any conversation has messages. */
const RANGE_MAX = 100_000;

function createHelpers(nowMs: number): Readonly<Record<string, unknown>> {
  return {
    strftime_now: (format: unknown) => strftime(nowMs, String(format)),
    raise_exception: (message: unknown) => {
      throw new TemplateRefusalError(String(message));
    },
    range: (first: number, last?: number, step = 1) => {
      const [from, to] = last === undefined ? [0, first] : [first, last];
      const count = Math.max(0, Math.ceil((to - from) / step));
      if (!(count <= RANGE_MAX)) throw new Error(`range() of more than ${RANGE_MAX} numbers`);
      return Array.from({ length: count }, (_, index) => from + index * step);
    },
  };
}
