import {
  type ArgumentValidator,
  createArgumentValidator,
} from "../manifests/argument-validator.ts";
import type { ArgumentError, JsonObject } from "../port.ts";
import type { ToolDeclaration } from "../tool-manifest.ts";

/** Compiled schemas that are kept; each is a few functions that Ajv has made. */
const VALIDATORS_MAX = 256;

/**
 * Arguments against the schemas of tools, compiled once for each declaration. On the event loop, without a
 * thread and without a deadline, because no schema that the registry takes can run away: patterns are RE2's,
 * nothing recurses, and the size of a schema and of arguments is bounded.
 */
export class ValidatorCache {
  readonly #validators = new Map<string, ArgumentValidator>();

  /** What is wrong with the arguments; empty: nothing. */
  validate(tool: ToolDeclaration, args: JsonObject): readonly ArgumentError[] {
    const validator =
      this.#validators.get(tool.digest) ?? createArgumentValidator(tool.inputSchema);
    this.#validators.delete(tool.digest);
    this.#validators.set(tool.digest, validator);
    for (const oldest of this.#validators.keys()) {
      if (this.#validators.size <= VALIDATORS_MAX) break;
      this.#validators.delete(oldest);
    }
    return validator(args);
  }
}
