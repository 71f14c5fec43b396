import { serverSettings } from "../../../src/config/server-settings.ts";
import { trainedModelsDir } from "./catalog.ts";
import { fetchTrainedModels } from "./fetch-models.ts";

/**
 * Fetches the models for the tests. Takes the hub and its token from the environment variables that Berth itself reads.
 */
export async function fetchForTests(say: (line: string) => void): Promise<void> {
  await fetchTrainedModels({
    dir: trainedModelsDir(),
    hubEndpoint: process.env["HF_ENDPOINT"] || serverSettings.hfEndpoint.default,
    hubToken: process.env["HF_TOKEN"],
    say,
  });
}
