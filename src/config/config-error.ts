import { BerthError } from "../base/errors.ts";

/** A setting that is wrong, or a config file that cannot be read: a usage error for the command line. */
export class ConfigError extends BerthError {
  constructor(message: string, hint?: string) {
    super("invalid_request", message, { hint });
  }
}
