import { BerthError } from "../base/errors.ts";
import { parseModelSource } from "../resources/model-source.ts";
import type { ModelSpec } from "../resources/model-spec.ts";
import type { Resource } from "../resources/resource.ts";
import type { TokenScope } from "../store/store.ts";

/**
 * Refuses a new folder of the server in `source.local`: only spec files may name one, because their authors can write
 * files on the server anyway. An unchanged value is allowed. Throws BerthError `invalid_request`.
 */
export function assertNoNewServerFolder(
  fields: Readonly<Record<string, unknown>>,
  stored: Resource<"App"> | undefined,
): void {
  const local = getLocalFolder(fields["source"]);
  if (local === undefined || local === getLocalFolder(stored?.spec.source)) return;
  throw new BerthError(
    "invalid_request",
    "source.local: a folder of the server can only be named by a file in its specs folder",
    { hint: "upload the folder: berth deploy DIR" },
  );
}

function getLocalFolder(source: unknown): unknown {
  return typeof source === "object" && source !== null && "local" in source
    ? (source.local ?? undefined)
    : undefined;
}

/**
 * Refuses a new file of the server as the source of a Model, unless the caller has the scope admin, which may also
 * create backups of everything. An unchanged value is allowed. Throws BerthError `forbidden`.
 */
export function assertServerFileAllowed(
  spec: ModelSpec,
  stored: Resource<"Model"> | undefined,
  scope: TokenScope | undefined,
): void {
  if (scope === "admin" || spec.source === stored?.spec.source) return;
  const parsed = parseModelSource(spec.source);
  if ("problem" in parsed || parsed.source.type !== "local") return;
  throw new BerthError(
    "forbidden",
    "source: a file of the server can only be named with a token of scope admin",
    { hint: "or by a file in its specs folder" },
  );
}
