import type { Config } from "../config/config.ts";
import type { Ingress } from "../controller/ingress/port.ts";
import type { ReservedPort } from "../resources/reserved-ports.ts";

const LOOPBACK = "127.0.0.1";

/**
 * Lists the ports on which the parts of this server listen. A part that is off reserves no port, and neither does the
 * setting 0, because the system then chooses a free port.
 */
export function listReservedPorts(
  config: Pick<Config, "listen" | "httpPort" | "httpsPort" | "assistant" | "companion">,
  parts: { readonly ingress: Ingress["mode"]; readonly hasCompanion: boolean },
): readonly ReservedPort[] {
  const { listen, httpPort, httpsPort, assistant, companion } = config;
  const hasIngress = parts.ingress !== "off";
  const all = [
    { port: listen.port, address: listen.host, owner: "Berth's API (the setting listen)" },
    {
      port: hasIngress ? httpPort : undefined,
      address: undefined,
      owner: "Berth's ingress (the setting http_port)",
    },
    {
      port: hasIngress ? httpsPort : undefined,
      address: undefined,
      owner: "Berth's ingress (the setting https_port)",
    },
    {
      port: assistant?.port,
      address: LOOPBACK,
      owner: "Berth's assistant (the setting assistant_port)",
    },
    {
      port: parts.hasCompanion ? companion?.port : undefined,
      address: LOOPBACK,
      owner: "Berth's companion (the setting companion_port)",
    },
  ];
  return all.flatMap(({ port, ...rest }) => (port ? [{ port, ...rest }] : []));
}
