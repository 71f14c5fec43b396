import type { Entry } from "./compose-tree.ts";
import type { HttpHints } from "./http-hints.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** Converts a label of caddy-docker-proxy: `caddy: host` or `caddy.reverse_proxy: "{{upstreams 8080}}"`. */
export function convertCaddyLabel(
  conversion: ServiceConversion,
  label: Entry,
  hints: HttpHints,
): void {
  const { key, value } = label;
  const text = value.kind === "scalar" ? value.text : "";
  const directive = key.replace(/^caddy(_\d+)?\.?/, "");
  if (directive === "") {
    for (const site of text.split(/[\s,]+/)) addSite(conversion, label, site, hints);
    return;
  }
  const upstreams =
    /^(?:\/\*\s+|\*\s+)?\{\{\s*upstreams(?:\s+(https?))?(?:\s+(\d{1,5}))?\s*\}\}$/.exec(text);
  if (directive === "reverse_proxy" && upstreams && upstreams[1] !== "https") {
    hints.port ??= { port: Number(upstreams[2] ?? 80), evidence: `the label ${key}` };
    return;
  }
  const message = `the label ${key} has no equivalent in Berth's ingress`;
  if (
    /(^|\.)(\d+_)?(basic_?auth|forward_auth|remote_ip|client_ip|jwt|authorize|authenticate)/.test(
      directive,
    )
  )
    conversion.addUnsafe(value, message);
  else conversion.addLoss(value, message);
}

function addSite(scope: ServiceConversion, { value }: Entry, site: string, hints: HttpHints): void {
  if (site === "") return;
  const match = /^(?:https?:\/\/)?([^/:]+)(?::\d+)?(\/.*)?$/.exec(site);
  const path = match?.[2]?.replace(/\*$/, "");
  if (!match?.[1] || site.startsWith("(")) {
    scope.addLoss(value, `"${site}" is not a host name`);
    return;
  }
  hints.domains.push({ domain: match[1], node: value });
  if (path !== undefined && path !== "/") hints.prefixes.set(path, value);
}
