import { LRUCache } from "lru-cache";
import { runWithTimeLimit } from "../../../base/run-with-time-limit.ts";
import { globals } from "./jinja/global-functions.ts";
import { renderBlock } from "./jinja/interpreter.ts";
import { parseTemplate } from "./jinja/parse-template.ts";
import { toText } from "./jinja/print-value.ts";
import { Scope } from "./jinja/scope.ts";
import type { Block } from "./jinja/syntax-tree.ts";
import { type Arguments, toValue, type Value } from "./jinja/values.ts";
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
  readonly #program: Block;
  #capabilities: TemplateCapabilities | undefined;

  private constructor(source: string) {
    this.source = source;
    this.#program = parseTemplate(source);
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
      const functions = new Map([...globals, ...createHelpers(nowMs)]);
      const scope = new Scope();
      for (const [name, value] of functions) scope.set(name, value);
      for (const [name, value] of Object.entries({ ...defaultVariables, ...variables })) {
        // A request cannot replace the constants and functions.
        if (functions.has(name)) throw new Error(`the variable "${name}" is reserved`);
        scope.set(name, toValue(value));
      }
      return renderBlock(this.#program, new Scope(scope));
    }, RENDER_MS_MAX);
  }
}

/** Thrown when the template calls `raise_exception`; the message is the template's own. */
export class TemplateRefusalError extends Error {}

/**
 * The variables that every template gets. Reasoning is on unless the request turns it off, because the defaults of
 * templates differ.
 */
const defaultVariables = { enable_thinking: true };

function createHelpers(nowMs: number): readonly [string, Value][] {
  return [
    ["strftime_now", (args: Arguments) => strftime(nowMs, args.getText(0, "format", ""))],
    [
      "raise_exception",
      ({ positional: [message] }: Arguments) => {
        throw new TemplateRefusalError(toText(message));
      },
    ],
  ];
}
