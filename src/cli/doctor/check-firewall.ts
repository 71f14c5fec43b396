import { readFileSync } from "node:fs";
import { createFinding, type DoctorFinding } from "./finding.ts";

const UFW_SETTINGS = "/etc/ufw/ufw.conf";

/**
 * Reports an active firewall, whatever its rules are, because only root can read them. A firewall that drops packets
 * from containers to this machine cuts apps off from their models: the connections time out.
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
      "ufw is on: apps that use models reach them only if a rule allows connections from containers, see docs/models-for-apps.md",
    ),
  ];
}
