/** The thread on which large batches are inflated and checked: a program of its own, started by `io/offload`. */
import { serveJobs } from '../io/job-server.ts'
import { NodeLoader } from '../io/loader.ts'
import { runBatchJob } from '../record/batch-jobs.ts'
import { Codecs } from '../record/compression.ts'

const codecs = new Codecs({ loader: new NodeLoader() })
serveJobs((job) => runBatchJob(codecs, job))
