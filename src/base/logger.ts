import { type Logger as PinoLogger, pino } from "pino";

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
  return pino({
    level,
    base: null,
    transport: {
      target: "pino-pretty",
      options: {
        destination: 2,
        translateTime: "SYS:HH:MM:ss",
        singleLine: true,
        colorize: process.stderr.isTTY,
      },
    },
  }) satisfies PinoLogger;
}

export const silentLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  child: () => silentLogger,
};
