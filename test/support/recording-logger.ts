import type { LogFields, Logger } from "../../src/base/logger.ts";

export interface LogEntry {
  readonly level: string;
  readonly fields: LogFields;
  readonly message: string;
}

/** Creates a logger that appends its entries to `logged`. */
export function createRecordingLogger(logged: LogEntry[]): Logger {
  const record = (level: string) => (fields: LogFields, message: string) => {
    logged.push({ level, fields, message });
  };
  const logger: Logger = {
    debug: record("debug"),
    info: record("info"),
    warn: record("warn"),
    error: record("error"),
    child: () => logger,
  };
  return logger;
}
