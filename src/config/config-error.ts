import { BerthError } from "../base/errors.ts";

/** Thrown if a setting is wrong or a config file cannot be read. The command line treats it as a usage error. */
export class ConfigError extends BerthError {
  constructor(message: string, hint?: string) {
    super("invalid_request", message, { hint });
  }
}
