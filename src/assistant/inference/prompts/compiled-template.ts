import { Environment, Interpreter, parse, tokenize } from "@huggingface/jinja";
import { LRUCache } from "lru-cache";
import { runWithTimeLimit } from "../../../base/run-with-time-limit.ts";
import { strftime } from "./strftime.ts";
import { probeTemplate, type TemplateCapabilities } from "./template-capabilities.ts";

/**
 * The time limit for rendering a template. Rendering usually takes about a millisecond; a template that exceeds the
 * limit probably loops forever.
 */
const RENDER_MS_MAX = 2_000;

/**
 * The number of cached templates, which is larger than the number of models in use. Each template takes a few kilobytes
 * of memory.
 */
const CACHED_TEMPLATES_MAX = 16;
const templateCache = new LRUCache<string, CompiledTemplate>({ max: CACHED_TEMPLATES_MAX });

/** A parsed chat template and its capabilities. */
export class CompiledTemplate {
  readonly source: string;
  readonly #program: ReturnType<typeof parse>;
  #capabilities: TemplateCapabilities | undefined;

  private constructor(source: string) {
    this.source = source;
    this.#program = parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }));
  }

  /** Returns the cached template or parses it. Throws the parser's errors. */
  static compile(source: string): CompiledTemplate {
    const cached = templateCache.get(source);
    if (cached !== undefined) return cached;
    const template = runWithTimeLimit(() => new CompiledTemplate(source), RENDER_MS_MAX);
    templateCache.set(source, template);
    return template;
  }

  /** Returns the template's capabilities. Throws TimeLimitError if the template takes too long to render a probe. */
  get capabilities(): TemplateCapabilities {
    this.#capabilities ??= probeTemplate(this.source, (variables) => this.render(variables, 0));
    return this.#capabilities;
  }

  /**
   * Renders the template. Throws TemplateRefusalError if the template raises an exception, TimeLimitError, and Jinja
   * errors.
   */
  render(variables: Readonly<Record<string, unknown>>, nowMs: number): string {
    return runWithTimeLimit(() => {
      const environment = new Environment();
      // `set` throws for a name that is set already, so a request cannot replace constants and helpers.
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

/** Thrown when the template calls `raise_exception`; the message is the template's own. */
export class TemplateRefusalError extends Error {}

const constants = { true: true, false: false, none: null, True: true, False: false, None: null };

/**
 * The variables that every template gets. Reasoning is on unless the request turns it off, because the defaults of
 * templates differ.
 */
const defaultVariables = { enable_thinking: true };

/**
 * The maximum number of iterations of `range()`. Templates use `range()` to count messages, and conversations have far
 * fewer messages.
 */
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
      if (!(count <= RANGE_MAX)) throw new Error(`range() has more than ${RANGE_MAX} numbers`);
      return Array.from({ length: count }, (_, index) => from + index * step);
    },
  };
}
