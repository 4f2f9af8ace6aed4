import { quickStart } from './quick-start.ts'

await quickStart(console.log)
