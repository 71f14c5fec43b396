import { type Logger as PinoLogger, pino } from "pino";
import { build as pretty } from "pino-pretty";

export type LogFields = Record<string, unknown>;

/** Logs a constant message with fields. Neither may contain secrets or prompts. */
export interface Logger {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  child(fields: LogFields): Logger;
}

export type LogFormat = "json" | "pretty";

/** Creates a logger that writes to standard error, because standard output is for the ready line and for results. */
export function createLogger(options: { format: LogFormat; level?: string }): Logger {
  const level = options.level ?? "info";
  if (options.format === "json") {
    return pino(
      { level, base: null, timestamp: pino.stdTimeFunctions.isoTime },
      pino.destination(2),
    );
  }
  const stream = pretty({
    destination: 2,
    // With synchronous writes, no lines are lost when the process ends right after them.
    sync: true,
    translateTime: "SYS:HH:MM:ss",
    singleLine: true,
    colorize: process.stderr.isTTY,
  });
  return pino({ level, base: null }, stream) satisfies PinoLogger;
}

export const silentLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  child: () => silentLogger,
};
