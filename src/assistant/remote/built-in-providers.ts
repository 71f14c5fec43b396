import { isIP } from "node:net";
import type { SignInConfig } from "../../config/sign-in-config.ts";
import type { AddressClass, BuiltInProvider, Provider } from "./port.ts";

const displayNames: Readonly<Record<BuiltInProvider, string>> = {
  openrouter: "OpenRouter",
  huggingface: "Hugging Face",
};

/** The providers that support sign-in. */
export function builtInProviders(endpoints: SignInConfig): readonly Provider[] {
  return builtInIds.map((id) => ({
    id,
    displayName: displayNames[id],
    baseUrl: endpoints[id].baseUrl,
    addressClass: classifyBaseUrl(endpoints[id].baseUrl),
    builtin: true,
    auth: "sign_in",
  }));
}

export const builtInIds: readonly BuiltInProvider[] = ["openrouter", "huggingface"];

export function findBuiltInId(id: string): BuiltInProvider | undefined {
  return builtInIds.find((known) => known === id);
}

/**
 * Returns the address class of a built-in provider: on the web, unless the configuration sets an endpoint on this
 * machine.
 */
function classifyBaseUrl(baseUrl: string): AddressClass {
  const { hostname } = new URL(baseUrl);
  const host = hostname.replaceAll(/[[\]]/g, "");
  const isHere =
    host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
  return isHere ? "loopback" : "public";
}
