import type { AppSpec } from "../resources/app-spec.ts";
import { type ComposeNode, getValue, isFalse, isNull, listItems } from "./compose-tree.ts";
import { getHostname } from "./convert-aliases.ts";
import { formatBerthBytes, parseComposeBytes } from "./quantities.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** Matches values of `security_opt` that loosen a protection, such as `seccomp:unconfined`. */
const loosenedProtection = /[:=](unconfined|false|disable)$/i;
const noNewPrivileges = /^no-new-privileges([:=]true)?$/i;

/** Converts the settings that restrict a container, its host name, and the size of its /dev/shm. */
export function convertRestrictions(conversion: ServiceConversion): void {
  const { spec } = conversion;
  const hostname = conversion.getNode("hostname");
  const name = hostname && conversion.readText(hostname);
  const valid = getHostname(conversion.body);
  if (valid !== undefined) spec.hostname = valid.text;
  else if (hostname && name !== "") conversion.addLoss(hostname, `"${name}" is no host name`);
  const shm = conversion.getNode("shm_size");
  const bytes = shm && readBytes(conversion, shm);
  if (bytes !== undefined) spec.shmSize = bytes;
  const security: AppSpec["security"] = {};
  const readOnly = conversion.getNode("read_only");
  if (readOnly && conversion.isTrue(readOnly)) security.readOnlyRoot = true;
  else if (readOnly && !isFalse(readOnly))
    conversion.addUnsafe(
      readOnly,
      "read_only is neither true nor false: the container can write to its own files",
    );
  const dropNode = conversion.getNode("cap_drop");
  const dropped = conversion.readTexts(dropNode);
  conversion.markHandled(dropNode);
  if (dropped.length > 0)
    security.dropCapabilities = [
      ...new Set(dropped.map(({ text }) => text.toUpperCase().replace(/^CAP_/, ""))),
    ];
  if (convertSecurityOptions(conversion)) security.noNewPrivileges = true;
  if (Object.keys(security).length > 0) spec.security = security;
  for (const item of conversion.readTexts(conversion.getNode("tmpfs"))) {
    const [path = "", options = ""] = item.text.split(":");
    addTmpfs(
      conversion,
      item,
      path,
      options.split(",").filter((option) => option !== ""),
    );
  }
}

/** Adds a folder in memory (tmpfs), which Compose can also declare as a volume of the type tmpfs. */
export function convertTmpfsVolume(
  conversion: ServiceConversion,
  item: ComposeNode,
  target: string,
): void {
  const options = getValue(item, "tmpfs");
  const size = getValue(options, "size");
  const mode = getValue(options, "mode");
  const sizeText = size && conversion.readText(size);
  if (mode) conversion.addLoss(mode, "a folder in memory always has the mode 1777");
  addTmpfs(conversion, item, target, sizeText === undefined ? [] : [`size=${sizeText}`]);
}

function addTmpfs(
  conversion: ServiceConversion,
  item: ComposeNode,
  path: string,
  options: readonly string[],
): void {
  const { spec } = conversion;
  conversion.markHandled(item);
  let size: string | undefined;
  for (const option of options) {
    const [, text] = /^size=(.+)$/.exec(option) ?? [];
    const bytes = text === undefined ? undefined : parseComposeBytes(text);
    if (bytes !== undefined && bytes > 0) size = formatBerthBytes(bytes);
    // These options are the defaults of a folder in memory, or restrict nothing that an App could use.
    else if (!/^(rw|noexec|nosuid|nodev|mode=0?1777)$/.test(option))
      conversion.addUnhandledFinding(
        "lost",
        item,
        `the option ${option} of the folder in memory ${path} is omitted`,
      );
  }
  spec.tmpfs = [...(spec.tmpfs ?? []), { path, ...(size === undefined ? {} : { size }) }];
}

/** Reports the security options that an App does not have. Returns true if one of them is no-new-privileges. */
function convertSecurityOptions(conversion: ServiceConversion): boolean {
  const node = conversion.getNode("security_opt");
  let isFound = false;
  for (const item of node === undefined ? [] : node.kind === "map" ? [node] : listItems(node)) {
    const text = item.kind === "scalar" ? item.text : "";
    const message = `an App has the default security settings of the engine, without ${text || "these"}`;
    if (noNewPrivileges.test(text)) {
      conversion.markHandled(item);
      isFound = true;
      // An App without a protection that the file loosens is safer than the file requests.
    } else if (loosenedProtection.test(text)) conversion.addLoss(item, message);
    else conversion.addUnsafe(item, message);
  }
  return isFound;
}

function readBytes(conversion: ServiceConversion, node: ComposeNode): string | undefined {
  if (isNull(node) || isFalse(node)) return undefined;
  const bytes = parseComposeBytes(conversion.readText(node) ?? "");
  if (bytes !== undefined && bytes > 0) return formatBerthBytes(bytes);
  conversion.addLoss(node, "this size is omitted: it is not an amount of memory such as 128mb");
  return undefined;
}
