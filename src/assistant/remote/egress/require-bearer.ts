import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { Provider } from "../port.ts";
import type { ProviderDirectory } from "./port.ts";

/**
 * Resolves to the token for a request. If the provider is on this machine or in a private network and has no key,
 * resolves to undefined. Rejects with `unauthorized` if a provider on the web has no key.
 */
export async function requireBearer(
  provider: Provider,
  providers: ProviderDirectory,
  signal: AbortSignal,
): Promise<string | undefined> {
  const bearer = await raceWithAbort(providers.bearer(provider, signal), signal);
  if (bearer !== undefined || provider.addressClass !== "public") return bearer;
  const signIn =
    provider.auth === "sign_in" ? `, or sign in with \`berth remote login ${provider.id}\`` : "";
  throw new AssistantError(
    "unauthorized",
    `there is no key for ${provider.id}, and nothing was sent. Set one with \`berth remote key ${provider.id}\`${signIn}`,
  );
}
