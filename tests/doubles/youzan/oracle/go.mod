module bus/oracle

go 1.21

require (
	github.com/spaolacci/murmur3 v1.1.0
	github.com/youzan/go-nsq v1.7.2-HA
)

require (
	github.com/golang/snappy v0.0.1 // indirect
	github.com/pierrec/lz4 v2.4.1+incompatible // indirect
)
