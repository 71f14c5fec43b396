import { AssistantError, invalidParameterError } from "../../assistant-error.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";

const loneSurrogate = /\p{Surrogate}/u;

/**
 * KEY_BYTES_MAX, VALUE_BYTES_MAX, KEYS_MAX and APP_BYTES_MAX limit the memory of one app; see the interface `Memory`.
 */
export const KEY_BYTES_MAX = 256;
export const VALUE_BYTES_MAX = 64 * 1024;
export const KEYS_MAX = 10_000;
export const APP_BYTES_MAX = 16 * 1024 * 1024;
/** The maximum number of apps. Programs outside a sandbox may name any app, so the number must be limited. */
export const APPS_MAX = 1_024;
/** The maximum length of an app id. Bus names and file names cannot be longer. */
const APP_ID_BYTES_MAX = 255;

/** Matches a reverse domain name whose characters are valid in file names and bus names. */
const reverseDomain = /^[A-Za-z0-9_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_][A-Za-z0-9_-]*)+$/;
/**
 * Matches the name that a sandbox gives to an app: a reverse domain name, or a name without a dot, such as a snap has.
 */
const sandboxName = /^[A-Za-z0-9_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_][A-Za-z0-9_-]*)*$/;

/**
 * Checks an app id. Throws `invalid_request` if it is invalid, and `forbidden` if the caller may not use the memory
 * of this app.
 */
export function checkApp(app: string, caller: Caller): void {
  const own = sandboxedApp(caller);
  if (own !== undefined && own !== app)
    throw new AssistantError("forbidden", `the app ${own} may only use its own memory`, {
      param: "app",
    });
  const pattern = own === undefined ? reverseDomain : sandboxName;
  if (app.length > APP_ID_BYTES_MAX || !pattern.test(app))
    throw invalidParameterError(
      "app",
      `must be the id of an app such as org.example.Notes, of at most ${APP_ID_BYTES_MAX} letters, digits, "_", "-" and "."`,
    );
}

export function checkKey(key: string): void {
  const bytes = countBytes("key", key);
  if (bytes === 0) throw invalidParameterError("key", "is empty");
  if (bytes > KEY_BYTES_MAX)
    throw invalidParameterError("key", `has ${bytes} bytes; the limit is ${KEY_BYTES_MAX}`);
}

export function checkValue(value: string): void {
  const bytes = countBytes("value", value);
  if (bytes > VALUE_BYTES_MAX)
    throw invalidParameterError("value", `has ${bytes} bytes; the limit is ${VALUE_BYTES_MAX}`);
}

/** The number of keys of an app, and the bytes of its keys and values. */
export interface MemoryUsage {
  readonly keys: number;
  readonly bytes: number;
}

/** Throws `limits_exceeded` if a write would exceed a limit. A write that reduces the usage is always allowed. */
export function checkUsage(app: string, before: MemoryUsage, after: MemoryUsage): void {
  if (after.keys > KEYS_MAX && after.keys > before.keys)
    throw limitExceeded(
      app,
      `${KEYS_MAX} keys`,
      "overwrite one of the app's keys, or wipe its memory",
    );
  if (after.bytes > APP_BYTES_MAX && after.bytes > before.bytes)
    throw limitExceeded(app, `${APP_BYTES_MAX} bytes`, "store shorter values, or wipe its memory");
}

export function tooManyApps(): AssistantError {
  return new AssistantError(
    "limits_exceeded",
    `${APPS_MAX} apps have a memory, which is the limit; wipe the memory of one of them`,
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
    throw invalidParameterError(param, "is not valid Unicode: it has a lone surrogate");
  return Buffer.byteLength(text);
}
