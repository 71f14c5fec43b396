import { readFileSync } from "node:fs";
import { createFinding, type DoctorFinding } from "./finding.ts";

const UFW_SETTINGS = "/etc/ufw/ufw.conf";

/**
 * A firewall that drops what comes from containers to this machine keeps apps from its models, and all
 * that they see is a connection that times out. Whether a rule lets them in, only root can find out.
 */
export function checkFirewall(settings = UFW_SETTINGS): DoctorFinding[] {
  let text: string;
  try {
    text = readFileSync(settings, "utf8");
  } catch {
    return [];
  }
  if (!/^\s*ENABLED\s*=\s*"?yes\b/im.test(text)) return [];
  return [
    createFinding(
      "firewall",
      "ok",
      "ufw is on: apps that say models reach them only where a rule lets containers in, see docs/models-for-apps.md",
    ),
  ];
}
