import { fakeToolAppsHarness } from "../../support/fake-tool-apps.ts";
import { toolAppsContract } from "./tool-apps-contract.ts";

toolAppsContract("the fake", async () => fakeToolAppsHarness());
