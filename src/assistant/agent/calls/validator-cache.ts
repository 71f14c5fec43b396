import {
  type ArgumentValidator,
  createArgumentValidator,
} from "../manifests/argument-validator.ts";
import type { ArgumentError, JsonObject } from "../port.ts";
import type { ToolDeclaration } from "../tool-manifest.ts";

/** The maximum number of cached validators of arguments. Each one holds a few functions that Ajv has compiled. */
const VALIDATORS_MAX = 256;

/**
 * Validates arguments with compiled schemas, cached per declaration. This runs on the event loop without a
 * deadline, because the registry accepts no schema whose validation can take long: patterns run in RE2, schemas are
 * not recursive, and the sizes of schemas and arguments are bounded.
 */
export class ValidatorCache {
  readonly #validators = new Map<string, ArgumentValidator>();

  /** Returns the errors in the arguments; an empty list if the arguments are valid. */
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
