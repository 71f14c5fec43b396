import { AssistantError } from "../../assistant-error.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";

const loneSurrogate = /\p{Surrogate}/u;

/** What one app may keep; see `Memory`. */
export const KEY_BYTES_MAX = 256;
export const VALUE_BYTES_MAX = 64 * 1024;
export const KEYS_MAX = 10_000;
export const APP_BYTES_MAX = 16 * 1024 * 1024;
/** Programs outside a sandbox may name any app: this keeps one of them from making folders full of keys. */
export const APPS_MAX = 1_024;
/** As long as a name on the bus, and as the name of a file. */
const APP_ID_BYTES_MAX = 255;

/** Reverse-domain, of letters that a file name and a name on the bus may have. */
const reverseDomain = /^[A-Za-z0-9_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_][A-Za-z0-9_-]*)+$/;
/** What a sandbox may call an app: a snap's name has no dot. */
const sandboxName = /^[A-Za-z0-9_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_][A-Za-z0-9_-]*)*$/;

/** Throws `invalid_request` where that is no app's id, and `forbidden` where the caller may not name it. */
export function checkApp(app: string, caller: Caller): void {
  const own = sandboxedApp(caller);
  if (own !== undefined && own !== app)
    throw new AssistantError("forbidden", `the app ${own} may use its own memory only`, {
      param: "app",
    });
  const pattern = own === undefined ? reverseDomain : sandboxName;
  if (app.length > APP_ID_BYTES_MAX || !pattern.test(app))
    throw invalidParameter(
      "app",
      `has to be an app's id such as org.example.Notes, of at most ${APP_ID_BYTES_MAX} letters, digits, "_", "-" and "."`,
    );
}

export function checkKey(key: string): void {
  const bytes = countBytes("key", key);
  if (bytes === 0) throw invalidParameter("key", "is empty");
  if (bytes > KEY_BYTES_MAX)
    throw invalidParameter("key", `has ${bytes} bytes; at most ${KEY_BYTES_MAX} are possible`);
}

export function checkValue(value: string): void {
  const bytes = countBytes("value", value);
  if (bytes > VALUE_BYTES_MAX)
    throw invalidParameter("value", `has ${bytes} bytes; at most ${VALUE_BYTES_MAX} are possible`);
}

/** What an app keeps already, or would keep. Keys and values count. */
export interface MemoryUsage {
  readonly keys: number;
  readonly bytes: number;
}

/** Throws `limits_exceeded` where an app would keep more than it may; what makes it smaller is always taken. */
export function checkUsage(app: string, before: MemoryUsage, after: MemoryUsage): void {
  if (after.keys > KEYS_MAX && after.keys > before.keys)
    throw limitExceeded(app, `${KEYS_MAX} keys`, "overwrite one of its keys, or wipe its memory");
  if (after.bytes > APP_BYTES_MAX && after.bytes > before.bytes)
    throw limitExceeded(app, `${APP_BYTES_MAX} bytes`, "store shorter values, or wipe its memory");
}

export function tooManyApps(): AssistantError {
  return new AssistantError(
    "limits_exceeded",
    `${APPS_MAX} apps keep something already, which is the most; wipe the memory of one of them`,
    { param: "app" },
  );
}

function limitExceeded(app: string, limit: string, advice: string): AssistantError {
  return new AssistantError(
    "limits_exceeded",
    `the memory of ${app} may have at most ${limit}; ${advice}`,
  );
}

function countBytes(param: string, text: string): number {
  if (loneSurrogate.test(text))
    throw invalidParameter(param, "is not Unicode: half of a code point is missing");
  return Buffer.byteLength(text);
}

function invalidParameter(param: string, why: string): AssistantError {
  return new AssistantError("invalid_request", `${param} ${why}`, { param });
}
